"""Every page of a full store is for everybody: axe finds nothing serious, and the keyboard alone reaches everything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.async_api import Browser, Page, expect
from tests.app.dashboard.browser import WIDTHS, fits, looking
from tests.app.node import installed
from tests.pictures.filling import Office, fill_past, opened
from tests.pictures.pages import addresses

AXE = "tests/node_axe"
SERIOUS = ("serious", "critical")

REACHED = """() => {
  const each = document.activeElement;
  if (!each || each === document.body) return null;
  const shown = getComputedStyle(each.matches(".menu input") ? each.closest(".menu") : each);
  each.dataset.reached = "";
  return shown.outlineStyle !== "none" && parseFloat(shown.outlineWidth) > 0 ? "" : each.outerHTML.slice(0, 120);
}"""
STOPPED = """() => {
  window.dispatchEvent(new Event("pagehide"));
  document.querySelector("[data-live]")?.removeAttribute("data-live");
}"""
"""The page is sent no fragment any more, which would put new parts in place of those that were reached."""
MISSED = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
  .filter((each) => !each.disabled && each.type !== "hidden" && each.checkVisibility() && !("reached" in each.dataset))
  .map((each) => each.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A server over a store with a past of two weeks, and runs of every kind."""
    home = tmp_path_factory.mktemp("office")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{home / 'store.db'}")
        asyncio.run(fill_past(f"sqlite:///{home / 'store.db'}"))
        with opened(home) as found:
            yield found


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of axe."""
    home = installed(AXE, tmp_path_factory.mktemp("axe"))
    return (home / "node_modules/axe-core/axe.min.js").read_text()


async def findings(page: Page, axe: str) -> list[str]:
    """What axe finds on a page that is serious, in lines."""
    await page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    await page.evaluate(axe)
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert len(found["passes"]) > 10
    return [
        f"{each['id']}: {each['help']}: {node['html'][:160]} {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"][:3]
    ]


@pytest.mark.check
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1440), ("dark", 390)])
async def test_axe_finds_nothing_serious(
    office: Office, axe: str, chromium: Browser, scheme: Literal["light", "dark"], width: int
) -> None:
    found: dict[str, list[str]] = {}
    async with looking(office.server.url, chromium, width, scheme, quiet=False) as page:
        for name, address in (addresses(office.runs) | office.links).items():
            await page.goto(address)
            found[name] = await findings(page, axe) + ([] if await fits(page) else ["it is wider than its window"])
    assert not any(found.values()), "\n".join(f"{name}: {line}" for name, lines in found.items() for line in lines)


@pytest.mark.check
@pytest.mark.timeout(600)
@pytest.mark.parametrize("width", [WIDTHS[0], WIDTHS[-1]])
async def test_the_keyboard_alone_reaches_everything_and_shows_where_it_is(
    office: Office, chromium: Browser, width: int
) -> None:
    async with looking(office.server.url, chromium, width, quiet=False) as page:
        for name in ("runs", "run-running", "draft-waits", "whatif", "subscriptions", "costs"):
            await page.goto(addresses(office.runs)[name])
            await page.evaluate(STOPPED)
            await page.keyboard.press("Tab")
            assert await page.evaluate("document.activeElement.matches('.skip')"), name
            hidden = []
            for _ in range(400):
                told = await page.evaluate(REACHED)
                if told is None:
                    break
                hidden += [told] if told else []
                await page.keyboard.press("Tab")
            assert not hidden, (name, hidden)
            assert not await page.evaluate(MISSED), name


@pytest.mark.check
@pytest.mark.timeout(600)
async def test_the_skip_link_and_the_menu_work_by_keyboard(office: Office, chromium: Browser) -> None:
    async with looking(office.server.url, chromium, 390, quiet=False) as page:
        await page.goto("/runs")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.closest('main') !== null")
        nav = page.get_by_role("navigation")
        await expect(nav).to_be_hidden()
        await page.get_by_role("checkbox", name="Menu").focus()
        await page.keyboard.press("Space")
        await expect(nav).to_be_visible()
        await nav.get_by_role("link", name="Costs").press("Enter")
        await page.wait_for_url("**/costs")
