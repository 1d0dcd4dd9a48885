"""A draft of a person's own, written on its page: what they did not touch comes back as it was, whatever it holds."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from playwright.async_api import Browser, expect
from tests.app.cli_calls import said, until
from tests.app.dashboard.asking import begin, html, send
from tests.app.dashboard.browser import looking
from tests.app.server.served import Served

from redraft.app.runs.browser_text import as_in_browser, from_browser

UNSEEN = (
    "one\r\ntwo \u200e\u202e\ufeff\u2028\x0c\x00\rthree\n\ufffd &amp; <b>\x1b\x85 "
    "\u0645\u200c\u0647 \U0001f468\u200d\U0001f469"
)


def waiting(server: Served, text: str) -> tuple[str, int]:
    """A run that waits with this draft, and the draft's number."""
    run = begin(server, "To be edited", "asked")
    until(lambda: server.get(f"/runs/{run}")["status"] == "waiting")
    answered = server.client.post(f"/runs/{run}/edit", json={"text": text, "draft": 3})
    assert answered.status_code == 200, answered.text
    until(lambda: newest(server, run)[0] == 4)
    return run, 4


def newest(server: Served, run: str) -> tuple[int, str]:
    """The number of the newest draft of a run, and its text."""
    drafts = server.get(f"/runs/{run}/drafts")
    last = max(each["version"] for each in drafts)
    return last, server.get(f"/runs/{run}/drafts/{last}")["text"]


@pytest.mark.check
async def test_a_draft_is_changed_where_a_person_typed_and_nowhere_else(server: Served, chromium: Browser) -> None:
    run, number = waiting(server, UNSEEN)
    async with looking(server.url, chromium) as page:
        await page.goto(f"/runs/{run}/drafts/{number}")
        await page.get_by_text("Write a draft of your own").click()
        await page.locator("#own").press("Control+End")
        await page.locator("#own").press_sequentially(" X\nY")
        await page.get_by_role("button", name="Give it to the run").click()
        await expect(page.locator("#said")).to_contain_text("Recorded as event")
    until(lambda: newest(server, run)[0] == 5)
    assert newest(server, run)[1] == UNSEEN + " X\r\nY"


def test_the_field_has_the_text_itself_and_no_symbols_for_it(server: Served) -> None:
    run, number = waiting(server, "a \u200e b\x0cc")
    page = html(server, f"/runs/{run}/drafts/{number}")
    field = page.partition("<textarea")[2].partition("</textarea>")[0].partition(">\n")[2]
    assert field == "a \u200e b\x0cc"
    assert "a \u27e8U+200E\u27e9 b\u240cc" in page, "where it is read, it is to be seen"


def test_mixed_line_ends_stay_as_they_are(server: Served) -> None:
    run, number = waiting(server, "one\r\ntwo\n")
    sha256 = server.get(f"/runs/{run}/drafts/{number}")["sha256"]
    send(server, f"/runs/{run}/edit", draft=str(number), sha256=sha256, text="one\r\ntwo\r\n", reason="")
    send(server, f"/runs/{run}/edit", draft=str(number), sha256=sha256, text="one\r\ntwo\r\nX", reason="")
    until(lambda: newest(server, run)[1].endswith("X"))
    assert newest(server, run)[1] == "one\r\ntwo\nX"
    texts = {server.get(f"/runs/{run}/drafts/{made}")["text"] for made in range(4, newest(server, run)[0] + 1)}
    assert texts <= {"one\r\ntwo\n", "one\r\ntwo\nX"}


@example("\n\r", "\n", 0)
@given(st.text("a\r\n\0\ufffd\u200e", max_size=40), st.text("ab\n", max_size=10), st.integers(0, 40))
def test_what_is_left_alone_comes_back_byte_for_byte(before: str, typed: str, place: int) -> None:
    assert from_browser(before, as_in_browser(before)) == before
    shown = as_in_browser(before)
    given = shown[:place] + typed + shown[place:]
    assert as_in_browser(from_browser(before, given.replace("\n", "\r\n"))) == given


@given(st.lists(st.text("abc\0\u200e", max_size=5), max_size=9), st.sampled_from(["\r\n", "\r", "\n"]))
def test_a_new_line_ends_as_the_others_do(lines: list[str], end: str) -> None:
    before = "".join(line + end for line in ["first", *lines])
    assert from_browser(before, as_in_browser(before) + "last\n") == before + "last" + end


@pytest.mark.check
def test_a_file_gets_the_text_itself_and_a_difference_in_line_ends_is_told(server: Served) -> None:
    run, number = waiting(server, "one\r\ntwo\r\n")
    printed = subprocess.run(
        [sys.executable, "-m", "redraft", "show", run, "--text"], capture_output=True, check=True
    ).stdout
    assert printed == b"one\r\ntwo\r\n"
    sent = server.client.post(f"/runs/{run}/edit", json={"text": "one\ntwo\n", "draft": number})
    assert sent.status_code == 200, sent.text
    until(lambda: newest(server, run)[0] == 5)
    assert "drafts 4 and 5 differ in their line ends alone" in said("diff", run, "4", "5")
    assert "They differ in their line ends alone" in html(server, f"/runs/{run}/diff?a=4&b=5")
    assert "line ends alone" not in said("diff", run, "3", "5")
