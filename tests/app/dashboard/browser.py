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

    That is: an error or a warning on the console if it is to be `quiet`, an exception, a request to another host.
    """
    view = {"width": width, "height": 900}
    context = await browser.new_context(base_url=url, viewport=view, color_scheme=scheme)
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    wrong: list[str] = []
    host = urlsplit(url).netloc
    loud = ("error", "warning") if quiet else ()
    page.on("console", lambda told: wrong.append(f"{told.text} {told.location}") if told.type in loud else None)
    page.on("pageerror", lambda error: wrong.append(f"{error!r} {error.stack}"))
    page.on("request", lambda sent: wrong.append(sent.url) if urlsplit(sent.url).netloc not in ("", host) else None)
    try:
        yield page
    finally:
        await context.close()
    assert not wrong, wrong


async def fits(page: Page) -> bool:
    """Whether nothing of the page lies beyond its right edge."""
    width = await page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    return bool(width[0] <= width[1])
