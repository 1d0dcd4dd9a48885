"""The list of runs: the same as on the command line, live, filtered by its address, and steered."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, expect
from tests.app.cli_calls import document
from tests.app.dashboard.asking import begin, ended, html, send
from tests.app.dashboard.browser import WIDTHS, fits, looking
from tests.app.server.served import Served


def test_the_list_has_what_the_command_line_lists(server: Served) -> None:
    run = begin(server, "Tides", tags=["spring"])
    other = begin(server, "Waves")
    ended(server, run)
    ended(server, other)
    page = html(server, "/?text=")
    assert all(each["run"] in page for each in document("list"))
    spring = html(server, "/runs?tag=spring&status=ended&outcome=")
    assert run in spring
    assert other not in spring
    assert "redraft list --status ended --tag spring" in spring
    assert "No run fits" in html(server, "/runs?text=nothing+of+this")


def test_a_filter_that_is_none_is_refused_in_a_line(server: Served) -> None:
    states = "ended, paused, quarantined, running, unreadable, waiting"
    assert f"status=asleep: give one of {states}" in html(server, "/runs?status=asleep", 400)
    assert re.search(r"sort=zz: give one of .*\bstarted\b", html(server, "/runs?sort=zz", 400))
    assert "min_cost=-1: give a number from 0" in html(server, "/runs?min_cost=-1", 400)
    assert "at=zz: give a whole number from 1" in html(server, f"/runs/{begin(server, 'Tides')}?at=zz", 400)
    assert "No run fits" in html(server, "/runs?status=waiting")
    assert "yore" in html(server, "/runs?since=yore", 422)


def test_a_form_needs_the_word_of_its_page(server: Served, folder: Path) -> None:
    (folder / "hold").touch()
    run = begin(server, "Held")
    without = httpx.post(f"{server.url}/runs/chosen/pause", data={"run": run})
    assert (without.status_code, "reload it" in without.text) == (403, True)
    assert "1 run paused" in send(server, "/runs/chosen/pause", run=run)
    assert "is paused already" in send(server, "/runs/chosen/pause", run=run)
    assert "tick those" in send(server, "/runs/chosen/pause", x="y")
    assert "1 run cancelled" in send(server, "/runs/chosen/cancel", run=run)
    (folder / "hold").unlink()
    ended(server, run)


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_the_live_list_is_sent_again_when_a_run_begins(server: Served, encoding: str) -> None:
    wanted = {"accept-encoding": encoding}
    with httpx.stream("GET", f"{server.url}/live/runs", headers=wanted, timeout=60) as stream:
        assert stream.headers.get("content-encoding", "identity") == encoding
        lines = stream.iter_lines()
        assert "event: fragment" in lines
        run = begin(server, "Seen live")
        assert any(run in line for line in lines)


@pytest.mark.check
@pytest.mark.parametrize("width", WIDTHS)
async def test_an_open_list_shows_runs_as_they_come_and_steers_them(
    server: Served, folder: Path, chromium: Browser, width: int
) -> None:
    async with looking(server.url, chromium, width) as page:
        await page.goto("/runs?text=Shown")
        brief = f"Shown at {width} <img src=x onerror=alert(1)>"
        (folder / "hold").touch()
        run = begin(server, brief, tags=[f"w{width}"])
        row = page.locator(f"#run-{run}")
        await expect(row).to_contain_text(brief)
        await row.get_by_role("checkbox").check()
        await page.get_by_role("button", name="Pause").click()
        await expect(page.locator("#said")).to_contain_text("1 run paused")
        await expect(row).to_contain_text("paused")
        await expect(row.get_by_role("checkbox")).to_be_checked()
        page.once("dialog", lambda dialog: dialog.accept())
        await page.get_by_role("button", name="End").click()
        await expect(row).to_contain_text("cancelled")
        assert await fits(page)
        (folder / "hold").unlink()
    assert json.dumps(server.get(f"/runs/{run}")["outcome"]) == '"cancelled"'


def test_a_mistyped_address_is_a_page_in_a_browser_and_a_problem_for_programs(server: Served) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for address in ("/rusn", "/runs/last/draftss", "/links/a/b"):
        page = httpx.get(server.url + address, headers=browser)
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8"), address
        assert "nothing is at this address" in page.text
        assert 'href="/runs"' in page.text
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert httpx.get(server.url + address).json()["type"] == "urn:redraft:problem:no-such-path"
    assert httpx.get(f"{server.url}/api/v1/rusn", headers=browser).json()["status"] == 404


def test_an_answer_that_tells_what_is_wrong_is_as_protected_as_any(server: Served) -> None:
    assert "script-src 'self'" in httpx.get(f"{server.url}/runs/none").headers["content-security-policy"]
    for address in ("/runs/none", "/api/v1/runs/none", "/api/v1/nothing", "/runs"):
        told = httpx.get(server.url + address).headers
        assert (told["x-content-type-options"], told["cache-control"]) == ("nosniff", "no-store"), address
        assert "frame-ancestors 'none'" in told["content-security-policy"]


def test_head_is_answered_as_get_without_a_body(server: Served) -> None:
    run = begin(server, "A brief to look at the head of.")
    for address in ("/runs", f"/runs/{run}", "/static/icon.svg", "/health", "/api/v1/runs", "/runs/none", "/sign-in"):
        told, shown = httpx.head(server.url + address), httpx.get(server.url + address)
        assert (told.status_code, told.content) == (shown.status_code, b""), address
        assert told.headers.get("content-type") == shown.headers.get("content-type")
    assert httpx.head(f"{server.url}/live/runs").status_code == 405, "it would not end"


def test_a_version_that_a_run_does_not_have_is_said(server: Served) -> None:
    run = begin(server, "A brief of few versions.")
    assert "has no version 9999" in html(server, f"/runs/{run}?at=9999", 404)
