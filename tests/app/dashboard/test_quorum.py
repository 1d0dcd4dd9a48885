"""A draft that several people have to approve: who has, for whom it still waits, and what a rejection does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.app.cli_calls import document, said, until
from tests.app.dashboard.asking import begin
from tests.app.dashboard.test_signing_in import signed_in
from tests.app.server.served import Served, served

ASKS = """
from redraft.actors import Workflow, approve, critic, generator, refiner, score

@generator
def write(brief):
    return brief.text

@critic
def judge(draft):
    return 1.0

@refiner
def more(draft):
    return draft.text + " more"

BODY = [judge, more]
both = Workflow("both").start_with(write).repeat_until(score >= 0.9, max_iterations=2, body=BODY)
both = both.then(approve("Sign", approvers=["ann", "ben"], quorum=2))
inside = Workflow("inside").start_with(write)
inside = inside.repeat_until("approved", max_iterations=3, body=[judge, approve("Sign", approvers=["ann"]), more])
"""


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str]]]:
    """A server that asks for tokens, and those of ann and ben."""
    home: Path = tmp_path_factory.mktemp("quorum")
    (home / "asks.py").write_text(ASKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{home / 'store.db'}")
        scopes = ("--scope", "read", "--scope", "operate", "--scope", "submit")
        with served(home, "asks.py:both", "asks.py:inside", REDRAFT_HTTP='{"authentication": "token"}') as server:
            tokens = {name: document("token", "create", name, *scopes)["token"] for name in ("ann", "ben")}
            server.client.headers["Authorization"] = f"Bearer {tokens['ann']}"
            yield server, tokens


def waiting(server: Served, workflow: str) -> str:
    run = begin(server, "Tides", workflow)
    until(lambda: server.get(f"/runs/{run}")["status"] == "waiting")
    return run


def page(client: httpx.Client, address: str) -> str:
    answered = client.get(address)
    assert answered.status_code == 200, answered.text
    return answered.text


def test_who_has_approved_is_told_and_is_not_asked_again(asking: tuple[Served, dict[str, str]]) -> None:
    server, tokens = asking
    run = waiting(server, "both")
    with signed_in(server, tokens["ann"]) as ann, signed_in(server, tokens["ben"]) as ben:
        address = f"/runs/{run}/drafts/1"
        assert "Draft 1 waits for ann, ben to approve it by" in page(ann, address)
        assert 'id="approve"' in page(ann, address)
        server.client.post(f"/runs/{run}/approve", json={"draft": 1}).raise_for_status()
        told = "raft 1 was approved by ann, and waits for ben to approve it by"
        until(lambda: told in page(ann, f"/runs/{run}"))
        assert told in said("show", run)
        assert told in page(ann, address)
        assert "You have approved it" in page(ann, address)
        assert 'id="approve"' not in page(ann, address)
        assert 'id="approve"' in page(ben, address)
        for client, is_asked in ((ann, False), (ben, True)):
            with client.stream("GET", f"/live{address}", headers={"Accept-Encoding": "identity"}) as stream:
                lines = iter(stream.iter_lines())
                fragment = next(line for line in lines if "waits for a decision" in line)
                assert "was approved by ann" in fragment
                rest = [fragment]
                while line := next(lines):
                    rest.append(line)
                assert any('id="approve"' in line for line in rest) == is_asked


def test_a_rejection_that_ends_the_run_is_told_so(asking: tuple[Served, dict[str, str]]) -> None:
    server, tokens = asking
    with signed_in(server, tokens["ann"]) as ann:
        outside = page(ann, f"/runs/{waiting(server, 'both')}/drafts/1")
        assert "a rejection ends the run" in outside
        assert "What the next refinement should take into account" not in outside
        within = page(ann, f"/runs/{waiting(server, 'inside')}/drafts/1")
        assert "What the next refinement should take into account" in within
