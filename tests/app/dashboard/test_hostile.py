"""Briefs, drafts, critiques, names and tags that would run something in a browser run nothing there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from tests.app.cli_calls import said, until
from tests.app.dashboard.asking import begin, html
from tests.app.dashboard.browser import looking, runs_nothing
from tests.app.server.served import Served, served

RUN = "window.ran=1"
IMAGE = f"<img src=x onerror={RUN}>"
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
from redraft.actors import (
    Critique, Edit, Issue, Refusal, Revision, Workflow, approve, critic, generator, publisher, refiner, score, step,
)

PAYLOADS = json.loads((Path(__file__).parent / "payloads.json").read_text())
LINES = [each for each in PAYLOADS if "\\n" not in each and "\\r" not in each]
SAYS = [PAYLOADS[at::40] for at in range(40)]
CRITERIA = {"tone": "<img src=x onerror=window.ran=1>"}
CRITERIA |= {f"c{at}": " ".join(each) for at, each in enumerate(SAYS)}
OPTIONS = {f"o{at}": each for at, each in enumerate(PAYLOADS)}
OPTIONS |= {each: each for each in PAYLOADS}
OPTIONS |= {"several": PAYLOADS, "pairs": {each: each for each in PAYLOADS}}
OPTIONS |= {"measures": {f"m{at}": each for at, each in enumerate(PAYLOADS)}}

@generator
def begin(brief):
    return "\\n\\n".join(PAYLOADS)

@critic(criteria=CRITERIA, measures=["words", "lines?"], version="<svg/onload=window.ran=1>")
def weigh(draft):
    quoted = [each for each in LINES if each in draft.text]
    marks = ("tone", *CRITERIA)
    issues = tuple(
        Issue(each + "!", quote=each, replacement=each, criterion="tone", severity="error") for each in quoted
    )
    said = tuple(PAYLOADS)
    by = {
        name: {"score": 0.5, "reason": " ".join(SAYS[at % 40]), "quote": quoted[at]}
        for at, name in enumerate(CRITERIA)
    }
    details = {each: each for each in PAYLOADS} | {"notice": LINES[1]}
    return Critique(
        0.5, said, said, said, said, criteria=by, issues=issues[:40], details=details, measures={"words": 3}
    )

@refiner
def shorten(draft, critique):
    changed = PAYLOADS[draft.version + 80]
    refused = tuple(Refusal(each.id, each.text) for each in critique.issues[1:])
    said = tuple(PAYLOADS)
    if draft.version == 1:
        once = [each for each in LINES if draft.text.count(each) == 1]
        edits = tuple(Edit(each, each + changed, (critique.issues[0].id,)) for each in once)
        return Revision(edits=edits, changes=said, declined=said, refusals=refused)
    return Revision(draft.text + "\\n" + changed, changes=said, declined=said, refusals=refused)

BODY = [step(weigh, options=OPTIONS), step(shorten, options=OPTIONS)]
hostile = Workflow("hostile").start_with(step(begin, options=OPTIONS))
hostile = hostile.repeat_until(score >= 0.9, max_iterations=2, name="Loop", body=BODY)
hostile = hostile.then(approve("Sign", approvers=["ann", *LINES[:99]]))
"""


@pytest.fixture
def hostile(folder: Path) -> Iterator[Served]:
    (folder / "payloads.json").write_text(json.dumps([each.replace("\0", "") for each in PAYLOADS]))
    (folder / "hostile.py").write_text(WORKFLOW)
    with served(folder, "hostile.py") as running:
        yield running


def test_there_are_150_of_them() -> None:
    assert len(set(PAYLOADS)) >= 150


@pytest.mark.check
async def test_an_inline_script_that_is_refused_is_seen(hostile: Served, chromium: Browser) -> None:
    with pytest.raises(AssertionError, match="refused: script-src-attr inline"):
        await _add_a_handler(hostile, chromium)


async def _add_a_handler(server: Served, chromium: Browser) -> None:
    async with looking(server.url, chromium, quiet=False) as page:
        await page.goto("/runs")
        await page.evaluate("document.body.insertAdjacentHTML('beforeend', '<b onclick=1>b</b>')")


@pytest.mark.check
@pytest.mark.timeout(300)
async def test_hostile_texts_run_nothing(hostile: Served, chromium: Browser) -> None:
    briefs = [begin(hostile, each.replace("\0", ""), "hostile") for each in _WHOLE]
    run = begin(hostile, "\n".join(_WHOLE).replace("\0", ""), "hostile", tags=["a:b/c"])
    until(lambda: hostile.get(f"/runs/{run}")["step"].startswith("Sign"))
    until(lambda: hostile.get(f"/runs/{briefs[0]}")["step"].startswith("Sign"))
    await asyncio.to_thread(said, "guide", run, _WHOLE[0], "--by", IMAGE)
    await asyncio.to_thread(said, "reject", briefs[0], "--by", IMAGE, "--feedback", " ".join(_WHOLE).replace("\0", ""))
    until(lambda: hostile.get(f"/runs/{briefs[0]}")["status"] == "ended")
    settings = {"at": 3, "settings": [f"weigh.o1={_WHOLE[1]}", "until=score >= 0.5"]}
    forked = hostile.client.post(f"/runs/{briefs[0]}/fork", json=settings)
    assert forked.status_code == 201, forked.text
    fork = forked.json()["run"]
    made = (("share", run), ("share", run, "--anonymous"), ("invite", run, "--for", "ann"))
    links = [json.loads(await asyncio.to_thread(said, "token", *each, "--json"))["link"] for each in made]
    async with looking(hostile.url, chromium) as page:
        for address in (
            "/runs",
            "/runs?tag=%3Cscript%3E",
            "/runs?text=%22%3E%3Cscript%3Ewindow.ran%3D1%3C%2Fscript%3E",
            f"/runs/{run}",
            f"/runs/{briefs[0]}",
            f"/runs/{briefs[-1]}",
            f"/runs/{fork}",
            *(f"/runs/{run}/drafts/{number}{form}" for number in (1, 2, 3) for form in ("", "?form=rendered")),
            f"/runs/{run}/diff?a=1&b=3",
            f"/runs/{run}?at=2",
            f"/runs/{run}?at=6",
            f"/events?run={run}",
            "/events?after=0",
            f"/compare?a={run}&b={briefs[0]}",
            f"/compare?a={fork}&b={briefs[0]}",
            "/search?words=window",
            *(
                f"/{name}"
                for name in ("issues", "critics", "costs", "actors", "dead-letters", "subscriptions", "whatif")
            ),
            "/issues?workflow=hostile",
            "/whatif?workflow=hostile",
            *("/links/" + each.rpartition("/")[2] for each in links),
            f"/api/v1/runs/{run}/audit.html",
        ):
            await runs_nothing(page, address)
            if not address.startswith(("/links", "/api")):
                await expect(page.locator("#content")).to_be_visible()
            if address == f"/runs/{run}":
                await expect(page.locator("html[data-line=live]")).to_be_attached()
            assert await page.evaluate("window.ran === undefined"), address
    assert "&lt;script&gt;" in html(hostile, f"/runs/{run}")


@pytest.mark.check
def test_what_is_hostile_stands_in_every_field(hostile: Served) -> None:
    run = begin(hostile, "a text", "hostile")
    until(lambda: hostile.get(f"/runs/{run}")["step"].startswith("Sign"))
    history = hostile.get(f"/runs/{run}/history")
    found = {name for name, text in _texts(history) if RUN in text}
    wanted = {"says", "reason", "quote", "replacement", "text", "details", "notice", "approvers", "options", "pairs"}
    assert wanted | {"several", "measures", "declined", "changes", "errors", "version", "edits"} <= found


def _texts(given: object, under: str = "") -> Iterator[tuple[str, str]]:
    """Yields each text with every name of what it is in."""
    if isinstance(given, dict):
        for name, value in given.items():
            for within, text in _texts(value, name):
                yield from ((within, text), (name, text), (under, text))
    elif isinstance(given, list):
        for each in given:
            yield from _texts(each, under)
    elif isinstance(given, str):
        yield under, given
