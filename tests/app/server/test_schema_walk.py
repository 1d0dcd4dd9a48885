"""schemathesis walks the described operations on a filled store, in all its phases, with each scope and none: no 5xx.

`REDRAFT_SCHEMATHESIS=200` tries so many examples of each operation, instead of 20; in the folder that
`REDRAFT_SCHEMATHESIS_REPORT` names, if any, its reports are kept.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest
from tests.app.cli_calls import document, said
from tests.app.server.served import LOOP, Served, served

pytestmark = [pytest.mark.check, pytest.mark.timeout(7_200)]

EXAMPLES: Final = int(os.environ.get("REDRAFT_SCHEMATHESIS", "20"))
HOOKS: Final = Path(__file__).with_name("schema_walk_hooks.py")
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
