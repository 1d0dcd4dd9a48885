"""Takes a picture of each page of the dashboard: `make pictures`, or `python -m tests.pictures [--only run,draft]
[--widths 1440,390] [--schemes dark] [--keep FOLDER]`. With `--pdf` also what each page prints."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from playwright.async_api import Page
from tests.app.dashboard.asking import html
from tests.app.dashboard.browser import WIDTHS, browser, looking
from tests.pictures.filling import Office, fill_past, opened
from tests.pictures.pages import addresses

FOLDER: Final = Path("build/pictures")
HIGHEST: Final = 4_000
"""The pixels of a picture from the top, at most."""


async def take(page: Page, name: str, address: str, into: Path) -> None:
    """Takes the picture of a page once it is live, from top to bottom."""
    await page.goto(address)
    await page.wait_for_load_state("load")
    await page.evaluate("document.fonts.ready")
    if name == "events":
        await page.locator("details.event summary").nth(3).click()
    if name in ("run-essay", "run-newsletter", "run-running"):
        for cell in await page.locator(".lane > ol > li > details > summary").all():
            await cell.click()
    await page.evaluate("scrollTo(0, 0)")  # or the menu stands where the page was scrolled to
    height = await page.evaluate("document.documentElement.scrollHeight")
    size = page.viewport_size or {"width": 1440, "height": 900}
    clip = {"x": 0, "y": 0, "width": size["width"], "height": min(height, HIGHEST)}
    await page.screenshot(path=into, full_page=True, clip=clip)  # type: ignore[arg-type]


Scheme = Literal["light", "dark"]


async def take_all(url: str, pages: Mapping[str, str], shapes: Sequence[tuple[int, Scheme]], pdf: bool) -> None:
    async with browser() as chromium:
        for width, scheme in shapes:
            async with looking(url, chromium, width, scheme, quiet=False) as page:
                for name, address in pages.items():
                    into = FOLDER / f"{name}-{width}-{scheme}.png"
                    await take(page, name, address, into)
                    print(into)
                    if pdf:
                        await page.pdf(path=FOLDER / f"{name}.pdf", format="A4")


async def verified(office: Office) -> None:
    """Returns once the page of the record says that it was verified."""
    while 'class="chip good">verified' not in html(office.server, "/chain"):  # noqa: ASYNC110 - by another process
        await asyncio.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="the pictures to take, by the beginnings of their names")
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--schemes", default="light,dark")
    parser.add_argument("--pdf", action="store_true", help="print each page as well")
    parser.add_argument("--serve", action="store_true", help="serve the office until Ctrl-C, and take no picture")
    given = parser.parse_args()
    into = FOLDER.absolute()
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = f"sqlite:///{folder / 'store.db'}"
        asyncio.run(fill_past(store))
        here = Path.cwd()
        os.environ["REDRAFT_STORE"] = store
        os.chdir(folder)
        with opened(folder) as office:
            os.chdir(here)
            if given.serve:
                print(office.server.url, office.runs)
                input()
                return
            asyncio.run(verified(office))
            wanted = tuple(given.only.split(","))
            known = addresses(office.runs) | office.links
            pages = {name: each for name, each in known.items() if name.startswith(wanted)}
            shapes = [(int(width), scheme) for width in given.widths.split(",") for scheme in given.schemes.split(",")]
            asyncio.run(take_all(office.server.url, pages, shapes, given.pdf))


if __name__ == "__main__":
    main()
