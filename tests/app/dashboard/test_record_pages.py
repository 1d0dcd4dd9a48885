"""Pages about the record: what-if over thresholds, events with causes, the chain, two runs, search."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from tests.app.cli_calls import document, said, until
from tests.app.dashboard.asking import begin, ended, html
from tests.app.dashboard.browser import WIDTHS, fits, looking
from tests.app.server.served import Served, served

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def runs(server: Served) -> tuple[str, str]:
    """Two runs that have ended."""
    one = begin(server, f"Tides {HOSTILE}")
    other = begin(server, "Waves", max_iterations=2)
    ended(server, one)
    ended(server, other)
    return one, other


def test_the_slider_says_what_whatif_says(server: Served, runs: tuple[str, str]) -> None:
    page = html(server, "/whatif?workflow=loop&at=50")
    (row,) = document("whatif", "--workflow", "loop", "--until", "score >= 0.5")["rows"][1:]
    assert f"{row['accepted']:.0%} accepted, {row['mean_iterations']:.3g} iterations" in page
    assert "2 of 2 runs decided again" in page
    assert "redraft whatif --workflow loop --until &#39;score &gt;= 0.5&#39;" in page
    assert "no such loop" not in page
    assert "no loop" in html(server, "/whatif?workflow=loop&loop=Other", 422)
    assert "No run has ended here" in html(server, "/whatif?workflow=unknown")
    assert "at=200: give a whole number from 0 up to 100" in html(server, "/whatif?at=200", 400)


def test_an_event_leads_to_its_cause(server: Served, runs: tuple[str, str]) -> None:
    page = html(server, f"/events?run={runs[0]}")
    events = server.get(f"/runs/{runs[0]}/history")
    for event in events:
        assert f'id="{event["id"]}"' in page
        if event["causation"]:
            assert f'href="#{event["causation"]}"' in page
    assert HOSTILE not in page
    critiqued = html(server, f"/events?run={runs[0]}&type=draft.critiqued")
    assert len(re.findall('<details class="event"', critiqued)) == 3
    assert f"redraft events --run {runs[0]} --type draft.critiqued" in critiqued
    assert "No event fits" in html(server, "/events?after=1000000")
    assert "moon" in html(server, "/events?type=moon", 422)


def test_two_runs_stand_side_by_side(server: Served, runs: tuple[str, str]) -> None:
    page = html(server, f"/compare?a={runs[0]}&b={runs[1]}")
    assert page.count("<section") == 2
    assert "max_iterations: " in page
    assert "<ins>Waves</ins>" in page
    assert "Name two runs" in html(server, "/compare")
    html(server, "/compare?a=last&b=nothing", 404)


def test_search_shows_where_the_words_are(server: Served, runs: tuple[str, str]) -> None:
    page = html(server, "/search?words=tides+mor*")
    assert runs[0] in page
    assert runs[1] not in page
    assert "<mark>Tides</mark>" in page
    assert "in draft 2, 3" in page
    assert HOSTILE not in page
    assert "No text has all" in html(server, "/search?words=nowhere")
    assert "there is no word" in html(server, "/search?words=*", 422)


def test_the_chain_says_up_to_where_it_was_verified(server: Served, runs: tuple[str, str]) -> None:
    until(lambda: 'class="chip good">verified' in html(server, "/chain"))
    page = html(server, "/chain")
    assert re.search(r"up to position [\d,]+ of [\d,]+, at", page)


def test_the_log_is_compared_with_a_checkpoint(runs: tuple[str, str], folder: Path) -> None:
    said("key", "signing", "signing.pem")
    said("audit", "--all", "--checkpoint", "held.json", "--key", "signing.pem")
    public = (folder / "signing.pem.pub").read_text()
    given = {"REDRAFT_CHECKPOINT": str(folder / "held.json"), "REDRAFT_PUBLIC_KEY": public}
    with served(folder, "--read-only", **given) as reading:
        until(lambda: "as they were signed" in html(reading, "/chain"))
    (folder / "held.json").write_text((folder / "held.json").read_text().replace('"events":', '"events":1'))
    with served(folder, "--read-only", **given) as reading:
        until(lambda: "its signature does not fit" in html(reading, "/chain"))


@pytest.mark.check
@pytest.mark.parametrize("width", WIDTHS)
async def test_the_slider_moves_what_is_shown(
    server: Served, runs: tuple[str, str], chromium: Browser, width: int
) -> None:
    async with looking(server.url, chromium, width) as page:
        await page.goto("/whatif?workflow=loop&at=50")
        await expect(page.locator("#curve")).to_contain_text("score >= 0.5:")
        slider = page.get_by_role("slider")
        await slider.focus()
        await slider.press("End")
        await expect(page.locator("#curve .why")).to_contain_text("score >= 1:")
        await expect(page.locator("#curve svg").first).to_be_visible()
        assert await fits(page)
        for address in (f"/events?run={runs[0]}", f"/compare?a={runs[0]}&b={runs[1]}", "/search?words=tides", "/chain"):
            await page.goto(address)
            assert await fits(page), address
        await page.goto(f"/events?run={runs[0]}")
        await page.locator("details.event").nth(1).locator("summary").click()
        await page.locator("details.event").nth(1).get_by_role("link").nth(1).click()
        await expect(page.locator("details.event:target")).to_be_visible()
