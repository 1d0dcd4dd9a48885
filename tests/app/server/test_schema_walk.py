"""schemathesis walks the described operations on a filled store, in all its phases, with each scope and none: no 5xx.

`REDRAFT_SCHEMATHESIS=200` tries so many examples of each operation, instead of 20; in the folder that
`REDRAFT_SCHEMATHESIS_REPORT` names, if any, its reports are kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from tests.app.cli_calls import document, environment, said, until
from tests.app.dashboard.asking import begin
from tests.app.server.served import LOOP, Served, served
from tests.forked import fork

pytestmark = [pytest.mark.check, pytest.mark.timeout(7_200)]

EXAMPLES: Final = int(os.environ.get("REDRAFT_SCHEMATHESIS", "20"))
HOOKS: Final = Path(__file__).with_name("schema_walk_hooks.py")
SCOPES: Final = ("read", "submit", "operate", "work", "admin", "")
AWAY: Final = """
from redraft.actors import Workflow, approve, score, step

away = Workflow("away").start_with(write)
away = away.repeat_until(score >= 0.9, max_iterations=50, name="Far", body=[step("far", role="critic"), improve])
away = away.finally_(save)
ask = Workflow("ask").start_with(write).then(judge).then(approve("Sign", approvers=["ann"])).finally_(save)
"""
"""A workflow whose critic works by HTTP, and one that waits for people."""

REFUSES: Final = "def refuse(event):\n    raise ValueError('not today')\n"
FEW: Final = 25
"""How many runs of each kind go on, and how many dead letters there are."""

UNLIMITED: Final = '{"authentication": "token", "requests_per_minute": 10000000}'


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str]]]:
    """A server on a store with runs of all sorts, and a token for each scope; `REDRAFT_WALKED` says what is there."""
    home = tmp_path_factory.mktemp("walked")
    (home / "loop.py").write_text(LOOP + AWAY)
    (home / "refuse.py").write_text(REFUSES)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{home / 'store.db'}")
        said("run", "loop.py:loop", "Tides", "--tag", "spring", "-q")
        said("run", "loop.py:loop", "Waves", "--max-iterations", "4", "-q")
        said("fork", "last", "--at", "5", "--workflow", "loop.py:loop", "-q")
        said("run", "--text", "A text that is fine.", "-q")
        tokens = {
            scope: str(document("token", "create", "ann", "--scope", scope, *_bound(scope))["token"])
            for scope in SCOPES
            if scope
        }
        with served(home, "loop.py", "--elsewhere", "critic.far", REDRAFT_HTTP=UNLIMITED) as running:
            running.client.headers["Authorization"] = f"Bearer {tokens['admin']}"
            patch.setenv("REDRAFT_WALKED", json.dumps(_fill(running, home)))
            yield running, tokens


def _fill(server: Served, home: Path) -> dict[str, list[Any]]:
    """Begins runs that go on, and makes dead letters and parked events; returns what is there, by parameter."""
    for name in ("away", "ask") * FEW:
        begin(server, "A text", name, tags=["spring"])
    lease = {"actor": "critic.far", "wait": 30}
    for _ in range(FEW):
        begin(server, "A text", "away")
        leased = server.client.post("/requests/lease", json=lease).json()["lease"]
        given = {"reason": "busy", "requeue": False}
        server.client.post(f"/leases/{leased}/release", json=given).raise_for_status()
    until(lambda: len(server.get("/dead-letters")) == FEW)
    command = ("redraft", "subscribe", "refuse.py:refuse", "--name", "mailer", "--attempts", "1", "--type", "run.ended")
    with (home / "subscribe.log").open("ab") as log:
        process = fork(*command, folder=home, environment=environment(home, {}), stderr=log.fileno())
        until(lambda: any(each["parked"] for each in document("subscriptions", "list")))
        process.terminate()
        process.wait(30)
    going_on = [each["run"] for each in server.get("/runs", limit=200)["runs"]]
    return {
        "run": ["last", *going_on],
        "after": [*going_on[:3], 0, 5],
        "letter": [each["id"] for each in server.get("/dead-letters")],
        "event": [each["id"] for each in server.get("/subscriptions/mailer/parked")],
        "subscriptions.name": ["mailer"],
        "projections.name": [each["name"] for each in server.get("/projections")],
        "version": [1, 2, 3],
        "draft": [1, 1, 1, 2],
        "a": [1, 2],
        "b": [1, 2, 3],
        "at": [1, 3, 5],
        "sha256": [""],
        "step": ["Loop[1]/judge", "Far[1]/far", "write"],
        "loop": ["", "Far", "Loop"],
        "until": ["score >= 0.5"],
        "workflow": ["loop", "away", "ask"],
        "actor": ["critic.far"],
        "budget": ["", "cost=2"],
        "model": [""],
        "settings": [["until=score >= 0.95"]],
        "tags": [["spring"]],
        "since": ["7d"],
    }


def _bound(scope: str) -> tuple[str, ...]:
    return ("--actor", "critic", "--actor", "refiner.x") if scope == "work" else ()


@pytest.fixture(scope="module")
def described(filled: tuple[Served, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The description of the server, as a file."""
    server, tokens = filled
    bearer = {"Authorization": f"Bearer {tokens['read']}"}
    found = httpx.get(f"{server.url}/api/v1/openapi.json", headers=bearer, timeout=60)
    file = tmp_path_factory.mktemp("described") / "openapi.json"
    file.write_bytes(found.content)
    return file


@pytest.mark.parametrize("scope", SCOPES)
def test_no_request_makes_the_server_fail(
    filled: tuple[Served, dict[str, str]], described: Path, scope: str, tmp_path: Path
) -> None:
    server, tokens = filled
    folder = Path(os.environ.get("REDRAFT_SCHEMATHESIS_REPORT", tmp_path))
    report = folder / f"{scope or 'nobody'}.json"
    walked = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", str(described), "--url", server.url),
            *("--phases", "examples,coverage,fuzzing,stateful", "--max-examples", str(EXAMPLES), "--seed", "17"),
            *("--checks", "not_a_server_error" if scope else "not_a_server_error,refused"),
            *("--exclude-path", "/api/v1/events/stream"),  # it does not end by itself; /events has its parameters
            *("--suppress-health-check", "all", "--warnings", "off", "--generation-database", "none"),
            *("--report", "json", "--report-json-path", str(report)),
            *(("--header", f"Authorization: Bearer {tokens[scope]}") if scope else ()),
        ],
        cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": HOOKS.stem, "PYTHONPATH": str(HOOKS.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert walked.returncode == 0, walked.stdout[-6_000:] + walked.stderr[-2_000:]
    assert server.process.poll() is None
    lines = [line for line in server.log.read_text().splitlines() if '"level":"error"' in line]
    assert lines == []
