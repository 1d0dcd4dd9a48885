"""A run and its drafts: what the pages say of them, as they are and as they stood, and what is said to them there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from tests.app.cli_calls import document, said, until
from tests.app.dashboard.asking import begin, ended, html, send
from tests.app.dashboard.browser import WIDTHS, fits, looking
from tests.app.server.served import Served, served


@pytest.fixture(scope="module")
def run(server: Served) -> str:
    """A run that waits for somebody to approve its third draft."""
    found = begin(server, "Why tides exist", "asked", tags=["sea"])
    until(lambda: server.get(f"/runs/{found}")["step"] == "Sign")
    return found


@pytest.fixture(scope="module")
def done(server: Served) -> str:
    """A run that was accepted after three drafts."""
    found = begin(server, "Why waves break")
    ended(server, found)
    return found


def test_a_run_says_why_it_ended_with_the_facts(server: Served, done: str) -> None:
    page = html(server, f"/runs/{done}")
    assert "The run ended as accepted: the condition holds: score 1.00 &gt;= 1; it ends with draft 3" in page
    assert re.search(r"<dt>Iterations</dt><dd>3<", page)
    assert f"redraft show {done}" in page
    assert "draft 3: 1.00, kept" in page
    assert "goal 1.00" in page


def test_a_run_that_waits_says_for_whom_and_where_to_decide(server: Served, run: str) -> None:
    page = html(server, f"/runs/{run}")
    assert "It waits: draft 3 waits for somebody, ann" in page
    assert f'href="/runs/{run}/drafts/3#decide"' in page
    assert re.search(r'<g class="people lit">', page)
    for name in ("clarity", "brevity"):
        assert f"<title>{name}</title>" in page


def test_a_run_is_shown_as_it_stood(server: Served, done: str) -> None:
    page = html(server, f"/runs/{done}?at=4")
    assert "as it stood after event 4 of" in page
    assert f"redraft show {done} --at 4" in page
    assert "The run ended" not in page
    assert said("show", done, "--at", "4")
    assert html(server, f"/runs/{done}?at=x", 400)
    assert "no run" in html(server, "/runs/nothing-like-this", 404)


def test_a_draft_has_what_critics_said_beside_the_words(server: Served, run: str) -> None:
    page = html(server, f"/runs/{run}/drafts/1")
    assert "brevity: &lt;b&gt;padding <q>go to</q>" in page
    assert re.search(r'<mark>very very<sup><a href="#note-1">1</a>', page)
    assert re.search(r'<mark>In order to<sup><a href="#note-2">2</a>', page)
    assert re.search(r'id="note-1".*?shorter: very', page, re.DOTALL)
    assert "<em>the beach</em>" in html(server, f"/runs/{run}/drafts/1?form=rendered")
    assert "no draft 9" in html(server, f"/runs/{run}/drafts/9", 404)


def test_a_difference_says_which_issue_each_change_answers(server: Served, run: str) -> None:
    page = html(server, f"/runs/{run}/diff?a=1&b=3")
    assert re.search(r"<del>very ?</del>.*answers warning: “very very”: shorter: very", page, re.DOTALL)
    assert f"redraft diff {run} 1 3" in page
    assert "Both are the same text" in html(server, f"/runs/{run}/diff?a=2&b=2")


def test_a_decision_counts_for_the_text_of_its_page_alone(server: Served) -> None:
    run = begin(server, "To be signed", "asked")
    until(lambda: server.get(f"/runs/{run}")["step"] == "Sign")
    draft = server.get(f"/runs/{run}/drafts/3")
    other = send(server, f"/runs/{run}/approve", draft="3", sha256="0" * 64, reason="")
    assert "another text than you looked at" in other
    told = send(server, f"/runs/{run}/approve", draft="3", sha256=draft["sha256"], reason="good")
    assert "draft.approved" in told
    ended(server, run)
    assert server.get(f"/runs/{run}")["outcome"] == "accepted"
    assert "has ended" in send(server, f"/runs/{run}/guide", advice="More")


def test_a_fork_begins_at_the_event_of_the_page(server: Served, done: str) -> None:
    assert "Fork from here" in html(server, f"/runs/{done}?at=4")
    assert "Fork from here" not in html(server, f"/runs/{done}"), "nothing is left to do there"
    send(server, f"/runs/{done}/fork", at="4")
    until(lambda: any((each["parent"] or {}).get("run") == done for each in document("list")))


def test_a_run_is_shown_with_loops_nested_as_deep_as_a_plan_may(server: Served) -> None:
    run = begin(server, "Deep", "deep")
    ended(server, run)
    page = html(server, f"/runs/{run}")
    assert page.count('<details class="lane') >= 8
    assert page.count('class="lane" id="loop-Loop8" open') == 1
    assert page.count(" open>") == 1


@pytest.mark.check
@pytest.mark.parametrize("width", WIDTHS)
async def test_a_run_grows_on_its_page_and_is_steered_there(
    server: Served, folder: Path, chromium: Browser, width: int
) -> None:
    (folder / "hold").touch()
    run = begin(server, f"Grows at {width}", "asked")
    async with looking(server.url, chromium, width) as page:
        await page.goto(f"/runs/{run}")
        await expect(page.locator("#why")).to_contain_text("weigh was asked to")
        await expect(page.locator("svg.plan .step.lit")).to_contain_text("weigh")
        await page.get_by_label("Advice to the next refinement").fill("See the moon.")
        await page.get_by_role("button", name="Advise").click()
        await expect(page.locator("#said")).to_contain_text("Recorded as event")
        await page.get_by_label("Advice to the next refinement").fill("Typed and not sent")
        (folder / "hold").unlink()
        await expect(page.locator("#why")).to_contain_text("draft 3 waits for somebody")
        await expect(page.get_by_label("Advice to the next refinement")).to_have_value("Typed and not sent")
        await expect(page.locator("svg.chart circle.dot")).to_have_count(3)
        assert await fits(page)
        await page.get_by_role("link", name="Look at it and decide").click()
        await expect(page.locator(".annotated")).to_contain_text("See the moon.")
        assert await fits(page)
        await page.get_by_label("Why (kept in the record)").first.fill("It is good")
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator("#said")).to_contain_text("draft.approved")
        await page.goto(f"/runs/{run}")
        await expect(page.locator("#why")).to_contain_text("The run ended as accepted")


@pytest.mark.check
async def test_the_slider_goes_back_and_forth_by_the_keyboard(server: Served, chromium: Browser, done: str) -> None:
    async with looking(server.url, chromium, 1024, "dark") as page:
        await page.goto(f"/runs/{done}")
        slider = page.get_by_role("slider")
        await slider.focus()
        await slider.press("Home")
        await expect(page.get_by_text("This is the run as it stood after event 1 of")).to_be_visible()
        await expect(page).to_have_url(re.compile(rf"/runs/{done}\?at=1$"))
        await slider.press("End")
        await expect(page.locator("#why")).to_contain_text("The run ended as accepted")


@pytest.mark.check
async def test_an_open_page_says_when_the_server_is_away(server: Served, folder: Path, chromium: Browser) -> None:
    assert server.get("/runs")
    with served(folder, "--read-only") as other:
        async with looking(other.url, chromium, quiet=False) as page:
            await page.goto("/runs")
            await expect(page.locator("html[data-line=live]")).to_be_attached()
            other.stop()
            await expect(page.get_by_text("The server does not answer")).to_be_visible()
