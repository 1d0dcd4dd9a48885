"""Links for people without an account: one decision on one draft, or one run to read, and nothing else."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.app.cli_calls import begin, document, one_line, until
from tests.app.server.served import Served, served
from tests.app.server.test_submitting import begun, ended, events, send

DECISIONS = ("approve", "reject")
ASKING = """
from redraft.actors import Critique, Workflow, approve, critic, generator, refiner, score

@generator
def write(brief):
    return "<script>alert(1)</script> " + brief.text

@critic
def judge(draft):
    return Critique(min(1, draft.version / 3), suggestions=("ask somebody",))

@refiner
def improve(draft, history):
    return draft.text + " more"

ask = Workflow("ask").start_with(write)
ask = ask.repeat_until(score >= 1, max_iterations=5, name="Loop", body=[judge, improve])
ask = ask.finally_(approve(approvers=["ann"]))

two = Workflow("two").start_with(write)
two = two.repeat_until(score >= 1, max_iterations=5, name="Loop", body=[judge, improve])
two = two.finally_(approve(approvers=["ann", "ben"], quorum=2))

twice = Workflow("twice").start_with(write)
twice = twice.repeat_until(score >= 1, max_iterations=5, name="Loop", body=[judge, improve])
twice = twice.then(approve("legal")).finally_(approve("editor"))
"""


@pytest.fixture
def server(home: Path) -> Iterator[Served]:
    (home / "ask.py").write_text(ASKING)
    with served(home, "ask.py") as running:
        yield running


def waiting(server: Served, workflow: str = "ask") -> str:
    """A run that waits for a decision."""
    run = begun(server, workflow=workflow)
    until(lambda: any(each["name"] == "approval.requested.v1" for each in events(run)))
    return run


def link(server: Served, *words: str) -> str:
    return str(document("token", *words, "--url", server.url)["link"])


def form(page: httpx.Response, decision: str, **other: str) -> dict[str, str]:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page.text)
    assert found
    return {"csrf": found[1], "decision": decision, **other}


def test_who_has_the_link_decides_once_and_the_record_says_how_they_are_known(server: Served) -> None:
    run = waiting(server)
    address = link(server, "invite", run, "--for", "ann")
    before = events(run)
    page = httpx.get(address)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert events(run) == before
    done = httpx.post(address, data=form(page, "approve", reason="It is good."))
    assert (done.status_code, "is approved, in the name of ann" in done.text) == (200, True)
    assert ended(server, run)["outcome"] == "accepted"
    (said,) = [each for each in events(run) if each["name"] == "draft.approved.v1"]
    assert re.fullmatch(r"ann \(link [0-9a-f]{8}\)", said["actor"])
    assert (said["data"]["by"], said["data"]["reason"]) == ("ann", "It is good.")
    again = httpx.post(address, data=form(page, "reject"))
    assert (again.status_code, "No such link" in again.text) == (404, True)
    secret = address.rpartition("/")[2]
    assert secret not in server.log.read_text()
    assert secret not in str(events(run))


def test_of_two_decisions_at_the_same_moment_one_counts(server: Served) -> None:
    for _ in range(5):
        run = waiting(server, "two")
        address = link(server, "invite", run, "--for", "ann")
        page = httpx.get(address)
        with ThreadPoolExecutor() as pool:
            both = [pool.submit(httpx.post, address, data=form(page, each), timeout=60) for each in DECISIONS]
        assert sorted(each.result().status_code for each in both) in ([200, 404], [200, 409])
        assert len([each for each in events(run) if each["name"] in ("draft.approved.v1", "draft.rejected.v1")]) == 1


def test_one_word_said_twice_approves_one_of_two_steps_that_ask_about_a_draft(server: Served) -> None:
    run = waiting(server, "twice")
    address = link(server, "invite", run, "--for", "ann")
    page = httpx.get(address)
    draft = server.get(f"/runs/{run}/drafts")[-1]
    word = {"draft": draft["version"], "sha256": draft["sha256"]}
    assert send(server, f"/runs/{run}/approve", word).status_code == 200
    again = send(server, f"/runs/{run}/approve", word)
    assert (again.status_code, "name this step" in again.text) == (422, True)
    old = send(server, f"/runs/{run}/reject", word | {"step": "legal"})
    assert (old.status_code, "legal asks no more; editor does" in old.text) == (422, True)
    pressed = httpx.post(address, data=form(page, "approve"))
    assert (pressed.status_code, "Nothing is to be decided" in pressed.text) == (410, True)
    assert send(server, f"/runs/{run}/approve", word | {"step": "editor"}).status_code == 200
    assert ended(server, run)["outcome"] == "accepted"


def test_a_decision_that_cannot_be_recorded_leaves_the_link_as_it_was(server: Served) -> None:
    run = waiting(server, "two")
    address, other = (link(server, "invite", run, "--for", "ann") for _ in range(2))
    page = httpx.get(other)
    assert httpx.post(address, data=form(httpx.get(address), "approve")).status_code == 200
    refused = httpx.post(other, data=form(page, "approve"))
    assert (refused.status_code, "has approved it already" in refused.text) == (409, True)
    assert httpx.post(other, data=form(page, "reject")).status_code == 200


@pytest.mark.parametrize("workflow", ["ask", "two"])
def test_a_link_whose_server_was_killed_once_its_decision_was_recorded_says_so(
    server: Served, home: Path, workflow: str
) -> None:
    run = waiting(server, workflow)
    address = link(server, "invite", run, "--for", "ann")
    good = form(httpx.get(address), "approve")
    assert httpx.post(address, data=good).status_code == 200
    (file,) = home.rglob("*.tokens.db")
    with closing(sqlite3.connect(file, isolation_level=None)) as tokens:  # as it was then: claimed, until that ended
        tokens.execute("UPDATE redraft_tokens SET revoked = NULL")
        tokens.execute("UPDATE redraft_claims SET ends = 0")
    for again in (httpx.get(address), httpx.post(address, data=good)):
        assert (again.status_code, "Recorded already" in again.text) == (410, True)
        assert "is approved, in the name of ann" in again.text
    assert httpx.post(address, data=good | {"decision": "reject"}).status_code == 404, "it is used up now"
    assert len([each for each in events(run) if each["name"] in ("draft.approved.v1", "draft.rejected.v1")]) == 1


def test_a_form_that_is_not_of_the_page_and_one_of_another_site_change_nothing(server: Served) -> None:
    run = waiting(server)
    address = link(server, "invite", run, "--for", "ann")
    good = form(httpx.get(address), "approve")
    before = events(run)
    for given, headers, status in (
        ({"decision": "approve"}, {}, 403),
        ({**good, "csrf": "0" * 64}, {}, 403),
        ({**good, "csrf": "\u00e9"}, {}, 403),
        (good | {f"field{number}": "" for number in range(11)}, {}, 403),
        ({**good, "decision": "publish"}, {}, 403),
        (good, {"Origin": "https://evil.example"}, 403),
        (good, {"Sec-Fetch-Site": "cross-site"}, 403),
    ):
        assert httpx.post(address, data=given, headers=headers).status_code == status
    assert httpx.get(f"{address}0").status_code == 404
    assert events(run) == before
    assert httpx.post(address, data={**good, "decision": "reject", "reason": "No."}).status_code == 200
    assert ended(server, run)["outcome"] == "rejected"


def test_a_link_is_for_one_draft_and_one_run_and_opens_nothing_else(server: Served) -> None:
    run = waiting(server)
    address = link(server, "invite", run, "--for", "ann")
    good = form(httpx.get(address), "approve")
    assert server.client.get("/runs").status_code == 200  # a link alone asks nobody for a token
    bearer = {"Authorization": f"Bearer {address.rpartition('/')[2]}"}
    for path in ("/runs", f"/runs/{run}/drafts"):
        assert server.client.get(path, headers=bearer).status_code == 403
    assert send(server, f"/runs/{run}/reject", {}, Authorization=bearer["Authorization"]).status_code == 403
    assert send(server, f"/runs/{run}/edit", {"text": "mine"}).status_code == 200
    until(lambda: any(each["name"] == "draft.edited.v1" for each in events(run)))
    before = [each["name"] for each in events(run)]
    assert httpx.post(address, data=good).status_code == 410
    assert "draft.approved.v1" not in before


def test_a_link_ends_when_it_is_revoked_and_is_listed_without_its_secret(server: Served) -> None:
    run = waiting(server)
    made = document("token", "invite", run, "--for", "ann", "--url", server.url)
    (listed,) = document("token", "list")
    assert (listed["id"], listed["name"], listed["scopes"], listed["link"]["run"]) == (made["id"], "ann", [], run)
    assert str(made["link"]).rpartition("_")[2] not in str(listed)
    document("token", "revoke", str(made["id"]))
    assert httpx.get(str(made["link"])).status_code == 404


@pytest.mark.check
def test_what_cannot_be_decided_gets_no_link(server: Served, home: Path) -> None:
    run = waiting(server)
    told = {
        ("invite", run, "--for", "bob"): "ann",
        ("invite", run, "--for", "ann", "--draft", "1"): "draft",
        ("invite", run, "--for", "ann", "--expires", "never"): "a link has an end",
        ("invite", "none", "--for", "ann"): "no run 'none'",
        ("share", "none"): "no run 'none'",
    }
    for words, says in told.items():
        refused = begin("token", *words, folder=home)
        assert refused.code in (2, 4)
        assert says in one_line(refused)
    assert document("token", "list") == []


def test_a_run_is_shared_to_be_read_and_without_names_on_wish(server: Served) -> None:
    run = waiting(server)
    approve = link(server, "invite", run, "--for", "ann")
    httpx.post(approve, data=form(httpx.get(approve), "approve", reason="ann likes it"))
    ended(server, run)
    named, nameless = link(server, "share", run), link(server, "share", run, "--anonymous")
    page, without = httpx.get(named), httpx.get(nameless)
    assert (page.status_code, without.status_code) == (200, 200)
    assert re.search(r"\bann\b", page.text)
    assert not re.search(r"\bann\b", without.text)
    assert "person 1" in without.text
    assert "ask somebody" in without.text, "nobody is known by that name"
    assert "&lt;script&gt;alert(1)" in without.text
    assert httpx.post(named, data={"decision": "approve"}).status_code == 404
    for address in (named, nameless):
        assert "default-src 'none'" in httpx.get(address).text


def test_what_is_shared_without_names_has_nothing_by_which_a_person_is_known_again(server: Served) -> None:
    made = [document("token", "create", name, "--scope", "admin") for name in ("ann", "carl")]
    server.client.headers["Authorization"] = f"Bearer {made[0]['token']}"
    run = waiting(server, "two")
    approve = link(server, "invite", run, "--for", "ann")
    httpx.post(approve, data=form(httpx.get(approve), "approve"))
    server.client.headers["Authorization"] = f"Bearer {made[1]['token']}"
    assert send(server, f"/runs/{run}/guide", {"advice": "shorter"}).status_code == 200
    named, nameless = link(server, "share", run), link(server, "share", run, "--anonymous")
    ids = [each["id"] for each in document("token", "list")]
    page, without = httpx.get(named).text, httpx.get(nameless).text
    assert len([each for each in ids if each in page]) == 3
    assert not [each for each in ids if each in without]
    assert "person 2 (token)" in without


def test_nobody_guesses_links_faster_than_their_rate(home: Path) -> None:
    (home / "ask.py").write_text(ASKING)
    with served(home, "ask.py", REDRAFT_HTTP='{"requests_per_minute": 5}') as server:
        guess = f"{server.url}/links/rdt_00000000_{'0' * 64}"
        found: list[Any] = [httpx.get(guess).status_code for _ in range(8)]
    assert set(found) == {404, 429}
