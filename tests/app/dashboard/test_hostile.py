"""Briefs, drafts, critiques, names and tags that would run something in a browser run nothing there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from tests.app.cli_calls import said, until
from tests.app.dashboard.asking import begin, html
from tests.app.dashboard.browser import looking
from tests.app.server.served import Served, served

RUN = "window.ran=1"
_HANDLERS = ("onerror", "onload", "onclick", "onfocus", "onmouseover", "onanimationstart", "ontoggle", "onbegin")
_ELEMENTS = ("img src=x", "svg", "body", "input autofocus", "details open", "video src=x", "iframe", "marquee", "style")
_WHOLE = (
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f"</textarea><script>{RUN}</script>",
    f"</pre></details><script>{RUN}</script>",
    f"<script src=data:text/javascript,{RUN}></script>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<iframe src=javascript:parent.{RUN}></iframe>",
    f"<a href=javascript:{RUN}>a</a>",
    f"[a](javascript:{RUN})",
    f"[a](data:text/html,<script>{RUN}</script>)",
    "![x](http://127.0.0.1:1/x.png)",
    f"<svg><script>{RUN}</script></svg>",
    f"<math><mtext></p><img src=x onerror={RUN}>",
    f"<div hx-get=/ hx-trigger=load hx-on:click={RUN} hx-on::load={RUN}>h</div>",
    f"<div data-hx-on:htmx:load={RUN} hx-vals='js:{RUN}'>h</div>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:1/'>",
    "<base href=http://127.0.0.1:1/>",
    "<link rel=stylesheet href=http://127.0.0.1:1/x.css>",
    "<style>@import 'http://127.0.0.1:1/x.css'</style>",
    f"<form action=javascript:{RUN}><button autofocus>b</button></form>",
    f"' onfocus={RUN} autofocus x='",
    f'" onfocus={RUN} autofocus x="',
    f'"><img src=x onerror={RUN}>',
    f"'><img src=x onerror={RUN}>",
    f"--><img src=x onerror={RUN}>",
    f"]]><img src=x onerror={RUN}>",
    f"{{{{ self.__init__.__globals__ }}}}<img src=x onerror={RUN}>",
    f"{{% raw %}}<img src=x onerror={RUN}>",
    f"data: x\n\nevent: fragment\ndata: <img src=x onerror={RUN}>\n\n",
    f"\r\ndata: <script>{RUN}</script>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
    f"&lt;img src=x onerror={RUN}&gt;&#60;script&#62;{RUN}&#60;/script&#62;",
    f"<template><script>{RUN}</script></template>",
    f"<x-y onclick={RUN} autofocus tabindex=0 onfocus={RUN}>",
    f"<object data=javascript:{RUN}></object><embed src=javascript:{RUN}>",
    "\u202e<b>\u0000\u0007\x1b[31m</b>",
)
PAYLOADS = (*(f"<{element} {handler}={RUN}>" for element, handler in product(_ELEMENTS, _HANDLERS)), *_WHOLE)
PAYLOADS += tuple(f"`{each}`\n\n> {each}\n\n- {each}" for each in _WHOLE) + tuple(each.upper() for each in _WHOLE[:20])

WORKFLOW = """
import json
from pathlib import Path
from redraft.actors import Critique, Issue, Workflow, approve, critic, generator, publisher, refiner, score

PAYLOADS = json.loads((Path(__file__).parent / "payloads.json").read_text())
CRITERIA = {"tone": "<img src=x onerror=window.ran=1>"}

@generator
def begin(brief):
    return "\\n\\n".join(PAYLOADS)

@critic(criteria=CRITERIA)
def weigh(draft):
    issues = tuple(Issue(each + "!", quote=each, replacement=each) for each in PAYLOADS if "\\n" not in each)
    said = tuple(PAYLOADS)
    by = {name: 0.5 for name in CRITERIA}
    return Critique(0.5, said, said, said, said, criteria=by, issues=issues[:40])

@refiner
def shorten(draft, critique):
    return draft.text + "\\n" + PAYLOADS[draft.version]

BODY = [weigh, shorten]
hostile = Workflow("hostile").start_with(begin)
hostile = hostile.repeat_until(score >= 0.9, max_iterations=2, name="Loop", body=BODY)
hostile = hostile.then(approve("Sign", approvers=["<script>window.ran=1</script>"]))
"""


@pytest.fixture
def hostile(folder: Path) -> Iterator[Served]:
    import json

    (folder / "payloads.json").write_text(json.dumps([each.replace("\0", "") for each in PAYLOADS]))
    (folder / "hostile.py").write_text(WORKFLOW)
    with served(folder, "hostile.py") as running:
        yield running


def test_there_are_150_of_them() -> None:
    assert len(set(PAYLOADS)) >= 150


@pytest.mark.check
async def test_hostile_texts_run_nothing(hostile: Served, chromium: Browser) -> None:
    briefs = [begin(hostile, each.replace("\0", ""), "hostile") for each in _WHOLE]
    run = begin(hostile, "\n".join(_WHOLE).replace("\0", ""), "hostile", tags=["a:b/c"])
    until(lambda: hostile.get(f"/runs/{run}")["step"].startswith("Sign"))
    await asyncio.to_thread(said, "guide", run, _WHOLE[0], "--by", "<img src=x onerror=window.ran=1>")
    async with looking(hostile.url, chromium) as page:
        for address in (
            "/runs",
            "/runs?tag=%3Cscript%3E",
            "/runs?text=%22%3E%3Cscript%3Ewindow.ran%3D1%3C%2Fscript%3E",
            f"/runs/{run}",
            f"/runs/{briefs[-1]}",
            f"/runs/{run}/drafts/1",
            f"/runs/{run}/drafts/3?form=rendered",
            f"/runs/{run}/diff?a=1&b=3",
            f"/runs/{run}?at=2",
            f"/events?run={run}",
            f"/compare?a={run}&b={briefs[0]}",
            "/search?words=window",
            *(
                f"/{name}"
                for name in ("issues", "critics", "costs", "actors", "dead-letters", "subscriptions", "whatif")
            ),
        ):
            await page.goto(address)
            await expect(page.locator("#content")).to_be_visible()
            if address == f"/runs/{run}":
                await expect(page.locator("html[data-line=live]")).to_be_attached()
                await page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            assert await page.evaluate("window.ran === undefined"), address
            assert (
                await page.locator("#content script, #content iframe, #content img, [onclick], [onerror]").count() == 0
            )
    assert "&lt;script&gt;" in html(hostile, f"/runs/{run}")
