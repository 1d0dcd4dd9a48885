"""A real browser that looks at `redraft serve`, and fails the test for whatever a page did wrong there."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import urlsplit

from playwright.async_api import Browser, Page, async_playwright, expect
from tests.services import missing

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = (1440, 1024, 390)
PATIENCE = 60_000
"""Milliseconds to wait for what a page is to show: the machine may be busy."""

REPORTS = """document.addEventListener("securitypolicyviolation", (event) =>
  refused(`${event.effectiveDirective} ${event.blockedURI} ${event.sample} on ${event.documentURI}`), true);"""
"""Tells of each thing that the Content-Security-Policy of a page refuses, an inline script among them."""

expect.set_options(timeout=PATIENCE)


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """A browser until the block ends. Without Chromium the test is skipped, or fails where services are required."""
    if CHROMIUM is None:
        missing("Chromium is not installed; `apt install chromium`, or `brew install chromium` on a Mac, gets it")
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield started
        finally:
            await started.close()


@asynccontextmanager
async def looking(
    url: str, browser: Browser, width: int = 1440, scheme: Literal["light", "dark"] = "light", *, quiet: bool = True
) -> AsyncIterator[Page]:
    """A page of the server at `url`. At the end, whatever it should not have done fails the test.

    That is: an error or a warning on the console if it is to be `quiet`, an exception, a request to another host, and
    whatever the Content-Security-Policy kept from it: something that a page would have run or loaded.
    """
    view = {"width": width, "height": 900}
    context = await browser.new_context(base_url=url, viewport=view, color_scheme=scheme)
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    wrong: list[str] = []
    host = urlsplit(url).netloc
    await context.expose_binding("refused", lambda _, told: wrong.append(f"refused: {told}"))
    await context.add_init_script(REPORTS)
    loud = ("error", "warning") if quiet else ()
    page.on("console", lambda told: wrong.append(f"{told.text} {told.location}") if told.type in loud else None)
    page.on("pageerror", lambda error: wrong.append(f"{error!r} {error.stack}"))
    page.on("request", lambda sent: wrong.append(sent.url) if urlsplit(sent.url).netloc not in ("", host) else None)
    try:
        yield page
        await page.evaluate("window.refused && document.readyState")  # what was reported before this has come
    finally:
        await context.close()
    assert not wrong, wrong


async def fits(page: Page) -> bool:
    """Whether nothing of the page lies beyond its right edge."""
    width = await page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    return bool(width[0] <= width[1])


STRANGE = """() => [...document.querySelectorAll("*")].filter((each) =>
  (each.matches("#content script, #content iframe, #content img, #content style, #content link, #content base, "
    + "#content meta, object, embed, video, marquee, svg script, foreignObject, [autofocus]:not([type=search])"))
  || [...each.attributes].some((one) => /^(on|hx-on|data-hx|style$|srcdoc$)/.test(one.name)
    || (/^(href|src|action|formaction|xlink:href)$/.test(one.name) && /^\\s*(javascript|data|vbs)/i.test(one.value))
    || (/^hx-(get|post|put|patch|delete)$/.test(one.name) && !/^\\/[a-z]/.test(one.value))))
  .map((each) => each.outerHTML.slice(0, 200))"""
"""The elements that no page of ours has: what was said made them."""


async def runs_nothing(page: Page, address: str) -> None:
    """Fails where something runs in this page, or would if the policy let it."""
    await page.goto(address)
    await page.wait_for_load_state("load")
    await page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert await page.evaluate("window.ran === undefined"), address
    assert not await page.evaluate(STRANGE), address
