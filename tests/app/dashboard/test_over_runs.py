"""Pages about many runs: issues, critics, costs, actors, dead letters, subscriptions. Each has what the verbs say."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from tests.app.cli_calls import document, until
from tests.app.dashboard.asking import begin, ended, html, send
from tests.app.dashboard.browser import WIDTHS, fits, looking
from tests.app.server.served import LOOP, Served, served

HOSTILE = "<img src=x onerror=alert(1)>"
PAGES = ("actors", "dead-letters", "subscriptions", "issues", "critics", "costs")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_without_anything_says_so(server: Served, page: str) -> None:
    shown = html(server, f"/{page}?since=0s" if page not in ("dead-letters", "subscriptions") else f"/{page}")
    assert 'class="nothing"' in shown
    assert "redraft " in shown


def test_pages_have_what_the_command_line_says(server: Served) -> None:
    run = begin(server, f"Tides {HOSTILE}")
    ended(server, run)
    issues = html(server, "/issues?workflow=loop")
    assert "say more" in issues
    assert document("stats", "recurring", "--workflow", "loop")[0]["text"] == "say more"
    critics = html(server, "/critics?workflow=loop&since=1d")
    assert "redraft stats drift --workflow loop --since 1d" in critics
    assert f"{document('stats', 'critics')[0]['mean']:.3f}" in critics
    assert "<desc" in critics
    assert "10 bars, the highest at" in critics
    assert run in html(server, "/costs?by=run")
    assert "redraft stats costs --by model" in html(server, "/costs?by=model")
    actors = html(server, "/actors")
    assert "1 worker" in actors
    assert all(each["actor"] in actors for each in document("stats", "actors"))
    assert "by=moon: give one of" in html(server, "/costs?by=moon", 400)


def test_an_actor_that_somebody_serves_by_http_is_served(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    with served(tmp_path, "loop.py", "--elsewhere", "generator.write") as other:
        run = begin(other, "Tides")
        page = html(other, "/actors")
        assert 'class="chip bad">nobody' in page
        until(lambda: '<td class="figure" data-label="Queued">1</td>' in html(other, "/actors"))
        assert '<td class="figure" data-label="In flight">0</td>' in html(other, "/actors"), "nobody has taken it"
        assert "<dt>Last event</dt>" in html(other, f"/runs/{run}")
        assert "Runs for" not in html(other, f"/runs/{run}"), "it is open for longer than to its last event"
        leased = other.client.post("/requests/lease", json={"actor": "generator.write", "wait": 30})
        given = {"reason": "busy", "requeue": True}
        other.client.post(f"/leases/{leased.json()['lease']}/release", json=given).raise_for_status()
        until(lambda: 'class="chip good">by HTTP' in html(other, "/actors"))
        assert 'class="chip bad">nobody' not in html(other, "/actors")


def test_what_is_gone_cannot_be_retried(server: Served) -> None:
    assert "no dead letter" in send(server, "/dead-letters/none/retry")
    assert "no dead letter" in send(server, "/dead-letters/none/discard")
    assert "none" in send(server, "/subscriptions/none/parked/all/retry")


@pytest.mark.check
@pytest.mark.parametrize("width", WIDTHS)
async def test_pages_fit_and_go_on_while_runs_do(server: Served, folder: Path, chromium: Browser, width: int) -> None:
    (folder / "hold").touch()
    run = begin(server, f"Shown at {width}")
    async with looking(server.url, chromium, width) as page:
        for name in PAGES:
            await page.goto(f"/{name}")
            assert await fits(page), name
        await page.goto("/actors")
        judge = page.locator("#actor-critic-judge")
        await expect(judge.locator('[data-label="In flight"]')).to_contain_text("1")
        (folder / "hold").unlink()
        ended(server, run)
        await expect(judge.locator('[data-label="In flight"]')).to_contain_text("0")
