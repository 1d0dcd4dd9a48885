"""Pages that were left open while something happened elsewhere: what they say, and what can still be done there."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Route, expect
from tests.app.cli_calls import said, until
from tests.app.dashboard.asking import begin, send
from tests.app.dashboard.browser import looking
from tests.app.server.served import LOOP, Served, served

from redraft.app.dashboard.templating import static_url

pytestmark = pytest.mark.timeout(180)


def waiting(server: Served, brief: str) -> str:
    """A run that waits for somebody to approve its third draft."""
    run = begin(server, brief, "asked")
    until(lambda: server.get(f"/runs/{run}")["step"] == "Sign")
    return run


def asked(server: Served, run: str) -> int:
    """How often people were asked to decide on a draft of this run."""
    return sum(each["name"].startswith("approval.requested") for each in server.get(f"/runs/{run}/history"))


async def record(brief: str) -> None:
    """Has another process record a run to its end."""
    command = (sys.executable, "-m", "redraft", "run", "--text", brief, "-q")
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)


async def word(*command: str) -> None:
    """Says something on the command line, beside the page."""
    await asyncio.to_thread(said, *command)


@pytest.mark.check
async def test_a_draft_that_waits_no_longer_cannot_be_approved_any_more(
    server: Served, folder: Path, chromium: Browser
) -> None:
    run = waiting(server, "Edited elsewhere")
    (folder / "mine.txt").write_text("My own words.")
    async with looking(server.url, chromium) as page:
        await page.goto(f"/runs/{run}/drafts/3")
        await expect(page.locator("html[data-line=live]")).to_be_attached()
        await page.locator("#approve-reason").fill("Typed before")
        await word("edit", run, "mine.txt", "--by", "ann")
        await expect(page.locator("#decide")).to_contain_text("Draft 4 waits for a decision now")
        await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        await page.get_by_role("link", name="Look at it").click()
        await expect(page.locator(".annotated")).to_contain_text("My own words.")
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator("#said")).to_contain_text("draft.approved")
        await expect(page.locator("#decide")).to_contain_text("The run has ended")
        await expect(page.get_by_role("button", name="Approve")).to_have_count(0)


@pytest.mark.check
@pytest.mark.parametrize("is_open", [False, True])
async def test_a_page_left_open_has_nothing_to_press_once_the_run_has_ended_and_keeps_what_was_typed(
    server: Served, chromium: Browser, is_open: bool
) -> None:
    run = waiting(server, f"Ended elsewhere {is_open}")
    async with looking(server.url, chromium) as page:
        await page.goto(f"/runs/{run}/drafts/3")
        await expect(page.locator("html[data-line=live]")).to_be_attached()
        if is_open:
            await page.get_by_text("Write a draft of your own").click()
            await page.locator("#own").fill("Typed, and not sent.")
            await expect(page.get_by_role("button", name="Give it to the run")).to_be_visible()
        await word("cancel", run, "--by", "ann")
        await expect(page.locator("#decide")).to_contain_text("The run has ended")
        await expect(page.locator("#decide").get_by_role("button")).to_have_count(0)
        await expect(page.get_by_text("Write a draft of your own")).to_be_hidden()
        await expect(page.get_by_role("heading", name="Decide")).to_be_hidden()
        if is_open:
            await expect(page.get_by_text("The run takes no draft any more")).to_be_visible()
            await expect(page.locator("#own")).to_be_visible()
            await expect(page.locator("#own")).to_have_value("Typed, and not sent.")


async def test_a_decision_on_a_draft_that_waits_no_longer_says_which_one_does(server: Served, folder: Path) -> None:
    run = waiting(server, "Edited before")
    draft = server.get(f"/runs/{run}/drafts/3")
    (folder / "mine.txt").write_text("My own words.")
    await word("edit", run, "mine.txt", "--by", "ann")
    until(lambda: asked(server, run) == 2)
    told = await asyncio.to_thread(send, server, f"/runs/{run}/approve", draft="3", sha256=draft["sha256"], reason="")
    assert "draft 3 is not waited for; draft 4 is" in told
    until(lambda: server.get(f"/runs/{run}")["status"] == "waiting")


@pytest.mark.check
async def test_what_is_pressed_while_the_server_is_away_is_told(tmp_path: Path, chromium: Browser) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    (tmp_path / "hold").touch()
    with served(tmp_path, "loop.py") as other:
        run = begin(other, "Tides")
        async with looking(other.url, chromium, quiet=False) as page:
            await page.goto(f"/runs/{run}")
            await expect(page.locator("html[data-line=live]")).to_be_attached()
            other.process.kill()
            await page.get_by_role("button", name="Pause").click()
            await expect(page.locator("#said")).to_contain_text("The server did not answer")
            await expect(page.get_by_text("The server does not answer")).to_be_visible()


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings with the key of a store that holds a run whose texts are encrypted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'store.db'}")
    said("key", "encryption", "key")
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
    said("run", "--text", "Only Ada knows of the tunnel.", "-q")
    return {"REDRAFT_ENCRYPT_KEY_FILE": str(tmp_path / "key")}


@pytest.mark.check
async def test_texts_that_are_erased_are_gone_from_open_pages(
    tmp_path: Path, secret: dict[str, str], chromium: Browser
) -> None:
    with served(tmp_path, "--read-only", **secret) as other:
        (run,) = [each["run"] for each in other.get("/runs")["runs"]]
        async with looking(other.url, chromium) as one, looking(other.url, chromium) as draft:
            await one.goto(f"/runs/{run}")
            await draft.goto(f"/runs/{run}/drafts/1")
            for page in (one, draft):
                await expect(page.locator("html[data-line=live]")).to_be_attached()
                assert "Ada" in await page.content()
            await word("erase", run, "--by", "grace", "--reason", "she asked for it")
            for page in (one, draft):
                await expect(page.locator("body")).to_contain_text("erased")
                await expect(page.locator("body")).not_to_contain_text("Ada")
                assert "Ada" not in await page.title()


@pytest.mark.check
async def test_a_page_of_another_release_asks_to_be_loaded_again(server: Served, chromium: Browser) -> None:
    async def older(route: Route) -> None:
        answered = await route.fetch()
        text = (await answered.text()).replace('name="redraft-release" content="', 'name="redraft-release" content="0')
        await route.fulfill(response=answered, body=text)

    async with looking(server.url, chromium) as page:
        await page.route(f"{server.url}/actors", older)
        await page.goto("/actors")
        await expect(page.get_by_text("The server is of another release than this page")).to_be_visible()
        await page.unroute(f"{server.url}/actors")
        await page.get_by_role("link", name="Load it again").last.click()
        await expect(page.locator("html[data-line=live]")).to_be_attached()
        await expect(page.get_by_text("The server is of another release than this page")).to_be_hidden()


def test_a_file_of_another_release_is_not_kept_by_browsers(server: Served) -> None:
    own = httpx.get(server.url + static_url("dashboard.css"))
    assert "immutable" in own.headers["cache-control"]
    for address in ("/static/dashboard.css?v=000000000000", "/static/dashboard.css"):
        assert httpx.get(server.url + address).headers["cache-control"] == "no-cache"


@pytest.mark.check
async def test_a_server_without_the_key_says_that_its_lists_are_left_to_others_and_since_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chromium: Browser
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'store.db'}")
    await record("Teh plain tides.")
    with served(tmp_path, "--read-only") as other:
        async with looking(other.url, chromium) as page:
            await page.goto("/runs")
            await expect(page.locator("html[data-line=live]")).to_be_attached()
            assert "leaves the read models" not in await page.content()
            await word("key", "encryption", "key")
            monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", str(tmp_path / "key"))
            monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
            await record("Only Ada knows of the tunnel.")
            until(lambda: "read models are left to others" in other.log.read_text())
            await record("Only Bob knows of it.")
            left = page.get_by_text("leaves the read models to processes that have it")
            await expect(left).to_be_visible()
            await expect(left).to_contain_text(re.compile(r"Since [0-9]{4}-[0-9-]{5} [0-9:]{5} UTC"))
            await page.goto("/compare")
            await expect(left).to_be_visible()
