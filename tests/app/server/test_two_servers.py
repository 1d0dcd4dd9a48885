"""Two servers of one store in PostgreSQL, beside `redraft up`: what holds at both, and what is a server's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.app.deployments import Deployment, deployment
from tests.app.server.test_deployed import url_of

from redraft.events.messages.domain_events import DraftApproved, DraftRejected

pytestmark = pytest.mark.check

ASKED = """
from redraft.actors import Critique, Workflow, approve, critic, generator

@generator
def write(brief):
    return brief.text

@critic
def judge(draft):
    return Critique(1.0)

ask = Workflow("ask").start_with(write).then(judge).then(approve("Sign", approvers=["ann"]))
"""


@pytest.fixture
def deployed(tmp_path: Path, postgres_url: str) -> Iterator[Deployment]:
    with deployment(tmp_path, postgres_url) as made:
        made.settings = {"REDRAFT_HTTP": '{"port": 0}', "REDRAFT_LOG_FORMAT": "json"}
        (tmp_path / "ask.py").write_text(ASKED)
        yield made


class Two:
    """Two servers, by what they answer to the bearer of a token."""

    def __init__(self, deployed: Deployment, *token: str) -> None:
        self.made = deployed.json("token", "create", "ann", *(each for scope in token for each in ("--scope", scope)))
        bearer = {"Authorization": f"Bearer {self.made['token']}"}
        self.one, self.other = (
            httpx.Client(base_url=url_of(deployed, name), headers=bearer, timeout=60) for name in ("one", "other")
        )

    def statuses(self, path: str) -> list[int]:
        return [each.get(path).status_code for each in (self.one, self.other)]


def site(client: httpx.Client) -> str:
    return str(client.base_url).removesuffix("/api/v1/")


@pytest.fixture
def two(deployed: Deployment) -> Iterator[Two]:
    deployed.start("up", "up", "ask.py:ask")
    deployed.start("one", "serve", "ask.py:ask")
    deployed.start("other", "serve", "ask.py:ask")
    made = Two(deployed, "read", "submit", "operate")
    with made.one, made.other:
        yield made


def begun(two: Two, deployed: Deployment) -> str:
    """A run that was begun at one server, and waits for a decision, as both know."""
    run = str(two.one.post("/runs", json={"workflow": "ask", "brief": "a text"}).json()["run"])
    for each in (two.one, two.other):
        deployed.until("it waits", lambda each=each: each.get(f"/runs/{run}").json().get("status") == "waiting")  # type: ignore[misc]
    return run


def test_what_is_begun_and_steered_at_one_is_known_at_the_other(deployed: Deployment, two: Two) -> None:
    key = {"Idempotency-Key": "k"}
    given = {"workflow": "ask", "brief": "a text"}
    first, again = (each.post("/runs", json=given, headers=key).json()["run"] for each in (two.one, two.other))
    assert first == again
    run = begun(two, deployed)
    with two.other.stream("GET", "/events/stream", params={"run": run}, headers={"Last-Event-ID": "0"}) as stream:
        told = next(line for line in stream.iter_lines() if "approval.requested" in line)
        assert told
    draft = two.other.get(f"/runs/{run}/drafts/1").json()
    approved = two.other.post(f"/runs/{run}/approve", json={"draft": 1, "sha256": draft["sha256"]})
    assert (approved.status_code, approved.json()["event"]) == (200, "draft.approved.v1")
    deployed.until("it ended", lambda: two.one.get(f"/runs/{run}").json()["outcome"] == "accepted")


def test_tokens_and_links_that_end_at_one_end_at_the_other(deployed: Deployment, two: Two) -> None:
    run = begun(two, deployed)
    shared, invited = (
        deployed.json("token", *words, "--url", site(two.one))
        for words in (("share", run), ("invite", run, "--for", "ann"))
    )
    share, invitation = (made["link"].replace(site(two.one), site(two.other)) for made in (shared, invited))
    assert [httpx.get(each).status_code for each in (shared["link"], share)] == [200, 200]
    deployed.json("token", "revoke", shared["id"])
    assert [httpx.get(each).status_code for each in (shared["link"], share)] == [404, 404]
    form = {"decision": "approve", "csrf": re.findall(r'name="csrf" value="(\w+)"', httpx.get(invitation).text)[0]}
    done, again = httpx.post(invited["link"], data=form, timeout=60), httpx.post(invitation, data=form, timeout=60)
    assert (done.status_code, again.status_code) == (200, 404)
    assert two.statuses("/runs") == [200, 200]
    with two.other.stream("GET", "/events/stream") as stream:
        deployed.json("token", "revoke", two.made["id"])
        assert any("authentication" in line for line in stream.iter_lines())
    deployed.until("the token is useless", lambda: two.statuses("/runs") == [401, 401])


def test_a_decision_by_a_link_that_nobody_records_yet_is_on_its_way(deployed: Deployment, two: Two) -> None:
    run = begun(two, deployed)
    link = deployed.json("token", "invite", run, "--for", "ann", "--url", site(two.one))["link"]
    deployed.processes[0].terminate()
    deployed.processes[0].wait(60)
    form = {"decision": "approve", "csrf": re.findall(r'name="csrf" value="(\w+)"', httpx.get(link).text)[0]}
    for decision in ("approve", "reject"):  # the link can be used until its decision is recorded
        sent = httpx.post(link, data=form | {"decision": decision}, timeout=60)
        assert (sent.status_code, "Your decision was sent" in sent.text) == (202, True)
        assert httpx.get(link).status_code == 200
    deployed.start("again", "up", "ask.py:ask")
    deployed.ended(run)
    for again in (httpx.get(link), httpx.post(link, data=form, timeout=60)):
        assert (again.status_code, "is approved, in the name of ann" in again.text) == (410, True)
    assert httpx.get(link).status_code == 404
    decided = [each for each in deployed.history(run) if isinstance(each.data, DraftApproved | DraftRejected)]
    assert [type(each.data) for each in decided] == [DraftApproved]


def test_of_the_same_word_at_both_servers_one_is_recorded_and_the_other_is_refused(
    deployed: Deployment, two: Two
) -> None:
    run = begun(two, deployed)
    for verb in ("pause", "resume") * 3:
        with ThreadPoolExecutor() as pool:
            both = [pool.submit(each.post, f"/runs/{run}/{verb}", json={}) for each in (two.one, two.other)]
        said = sorted((each.result() for each in both), key=lambda each: each.status_code)
        assert [each.status_code for each in said] == [200, 422]
        assert ("is paused already" if verb == "pause" else "is not paused") in said[1].json()["detail"]


def test_a_decision_by_a_link_that_came_after_an_edit_leaves_the_link_as_it_was(deployed: Deployment, two: Two) -> None:
    for _ in range(3):
        run = begun(two, deployed)
        made = deployed.json("token", "invite", run, "--for", "ann", "--url", site(two.one))
        form = {
            "decision": "approve",
            "csrf": re.findall(r'name="csrf" value="(\w+)"', httpx.get(made["link"]).text)[0],
        }
        with ThreadPoolExecutor() as pool:
            edit = pool.submit(two.other.post, f"/runs/{run}/edit", json={"text": "another text"})
            decision = pool.submit(httpx.post, made["link"], data=form, timeout=60)
        codes = edit.result().status_code, decision.result().status_code
        assert codes in ((200, 409), (200, 410), (409, 200), (422, 200))
        (token,) = [each for each in deployed.json("token", "list") if each["id"] == made["id"]]
        assert (token["revoked"] is None) == (codes[0] == 200)


def test_a_session_and_a_lease_are_one_servers_own(deployed: Deployment, two: Two) -> None:
    made = deployed.json("token", "create", "bot", "--scope", "work", "--actor", "critic.judge")
    bearer = {"Authorization": f"Bearer {made['token']}"}
    wish = {"actor": "critic.judge", "wait": 0}
    assert two.one.post("/requests/lease", json=wish, headers=bearer).status_code == 204
    assert two.other.get("/actors").status_code == 200
    present = deployed.json("doctor")["checks"]
    assert any(f"critic.judge by bot (token {made['id']})" in each["message"] for each in present)
    strange = two.other.post("/leases/none/extend", json={}, headers=bearer)
    assert (strange.status_code, strange.json()["type"]) == (409, "urn:redraft:problem:lease-ended")
    with httpx.Client(timeout=60) as person:
        assert _signed_in(person, two.one, two.made["token"]) == 200
        assert person.get(f"{site(two.one)}/runs").status_code == 200
        led = person.get(f"{site(two.other)}/runs")
        assert (led.status_code, led.headers["location"]) == (303, "/sign-in?next=%2Fruns")
        assert _signed_in(person, two.other, two.made["token"]) == 200
        assert [person.get(f"{site(each)}/runs").status_code for each in (two.one, two.other)] == [200, 200]


def _signed_in(person: httpx.Client, server: httpx.Client, token: str) -> int:
    """The status with which a server answers somebody who shows a token."""
    word = re.findall(r'"X-CSRF-Token": "(\w+)"', person.get(f"{site(server)}/sign-in").text)[0]
    shown = {"token": token, "next": "/runs"}
    return person.post(f"{site(server)}/sign-in", data=shown, headers={"X-CSRF-Token": word}).status_code
