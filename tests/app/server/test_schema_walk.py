"""schemathesis walks the described operations on a filled store, with each scope and none: never a 5xx.

`REDRAFT_SCHEMATHESIS=200` tries so many examples of each operation, instead of 40.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.app.cli_calls import document, said
from tests.app.server.served import LOOP, Served, served

pytestmark = [pytest.mark.check, pytest.mark.timeout(3_000)]

EXAMPLES: Final = int(os.environ.get("REDRAFT_SCHEMATHESIS", "40"))
SCOPES: Final = ("read", "submit", "operate", "work", "admin", "")
UNLIMITED: Final = '{"authentication": "token", "requests_per_minute": 10000000}'


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str]]]:
    """A server on a store with runs of all sorts, and a token for each scope."""
    home = tmp_path_factory.mktemp("walked")
    (home / "loop.py").write_text(LOOP)
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
        with served(home, "loop.py", REDRAFT_HTTP=UNLIMITED) as running:
            yield running, tokens


def _bound(scope: str) -> tuple[str, ...]:
    return ("--actor", "critic", "--actor", "refiner.x") if scope == "work" else ()


@pytest.fixture(scope="module")
def described(filled: tuple[Served, dict[str, str]]) -> Any:
    server, tokens = filled
    bearer = {"Authorization": f"Bearer {tokens['read']}"}
    found = httpx.get(f"{server.url}/api/v1/openapi.json", headers=bearer, timeout=60).json()
    return schemathesis.openapi.from_dict(found)


@pytest.mark.parametrize("scope", SCOPES)
def test_no_request_makes_the_server_fail(filled: tuple[Served, dict[str, str]], described: Any, scope: str) -> None:
    server, tokens = filled
    headers = {"Authorization": f"Bearer {tokens[scope]}"} if scope else {}
    walked = 0
    for found in described.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events/stream"):
            continue  # it does not end by itself; its parameters are those of /events
        _walk(server, operation, headers, closed=not scope and operation.path != "/health")
        walked += 1
    assert walked > 40
    assert server.process.poll() is None
    lines = [line for line in server.log.read_text().splitlines() if '"level":"error"' in line]
    assert lines == []


def _walk(server: Served, operation: Any, headers: dict[str, str], *, closed: bool) -> None:
    chosen = settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @chosen
    @given(case=operation.as_strategy(), run=st.sampled_from(["", "last"]))
    def call(case: Any, run: str) -> None:
        if run and "run" in (case.path_parameters or {}):
            case.path_parameters["run"] = run  # one that is there
        if isinstance(case.query, dict) and "wait" in case.query:
            case.query["wait"] = 0
        if isinstance(case.body, dict) and operation.path.endswith("/requests/lease"):
            case.body["wait"] = 0
        answered = case.call(base_url=server.url, headers=headers)
        assert answered.status_code < 500, (answered.status_code, answered.text)
        assert not closed or answered.status_code in (400, 401, 404, 405, 431), answered.status_code

    call()
