"""What pages print: whole tables below their heads, plans that fit the paper, and nothing to press."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page
from tests.app.cli_calls import until
from tests.app.dashboard.asking import begin, ended
from tests.app.dashboard.browser import fits, looking
from tests.app.server.served import Served

PAPER = 718
"""The pixels of a line on A4."""

COLUMNS = """() => [...document.querySelectorAll("table.runs tr")].map((row) => [...row.children]
  .filter((each) => each.checkVisibility()).map((each) => Math.round(each.getBoundingClientRect().left)))"""
SHOWN = """() => [...document.querySelectorAll("button, select, nav, form.card, input")]
  .filter((each) => each.checkVisibility()).map((each) => each.outerHTML.slice(0, 120))"""


async def printed(page: Page, address: str) -> None:
    """Shows a page as it is printed."""
    await page.goto(address)
    await page.emulate_media(media="print")


@pytest.mark.check
async def test_pages_print_whole_and_without_what_is_to_be_pressed(server: Served, chromium: Browser) -> None:
    deep, asked = begin(server, "Deep", "deep"), begin(server, "To be signed", "asked")
    ended(server, deep)
    until(lambda: server.get(f"/runs/{asked}")["step"] == "Sign")
    async with looking(server.url, chromium, PAPER) as page:
        for address in (
            "/runs",
            f"/runs/{deep}",
            f"/runs/{asked}",
            f"/runs/{asked}/drafts/3",
            f"/runs/{asked}/diff?a=1&b=3",
            f"/compare?a={deep}&b={asked}",
            "/costs",
            "/actors",
        ):
            await printed(page, address)
            assert await fits(page), address
            assert not await page.evaluate(SHOWN), address
        await printed(page, "/runs")
        head, *rows = await page.evaluate(COLUMNS)
        assert rows
        assert all(row == head for row in rows), (head, rows)
        await printed(page, f"/runs/{deep}")
        wide = await page.evaluate("document.querySelector('svg.plan').getBoundingClientRect().right")
        assert wide <= PAPER
