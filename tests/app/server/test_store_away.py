"""`redraft serve` without a broker while its store is locked, or its connections are cut: it goes on afterwards."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
from tests.app.cli_calls import document, spawn, until
from tests.app.server.served import LOOP, Served, served
from tests.app.server.test_submitting import begun, ended, events, send
from tests.processes import logged

from redraft.events.store.lease import LASTS

pytestmark = pytest.mark.check

ADVICE = ", again"

_END_OTHERS = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_TAKE = "UPDATE lease SET epoch = epoch + 1, holder = 'process 1 on another', expires = ?, locked = 0"


@pytest.fixture
def folder(home: Path) -> Path:
    (home / "loop.py").write_text(LOOP)
    (home / "hold").touch()
    return home


@pytest.fixture
def calling() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@contextmanager
def locked(file: Path) -> Iterator[sqlite3.Connection]:
    """Keeps everybody else from writing to a file of SQLite's."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
        other.execute("COMMIT")


def under_way(server: Served, folder: Path) -> str:
    """Begins a run whose critic waits."""
    run = begun(server)
    until((folder / "at-judge").exists)
    return run


def interrupted(server: Served) -> set[str]:
    return {str(line["part"]) for line in logged(server.log) if line["event"] == "interrupted"}


def guiding(calling: ThreadPoolExecutor, server: Served, run: str) -> Future[httpx.Response]:
    return calling.submit(send, server, f"/runs/{run}/guide", {"advice": ADVICE})


def require_all(server: Served, folder: Path, run: str) -> None:
    """The run ends with each step and the person's word in it once; another can begin; the server ends by a signal."""
    assert ended(server, run)["outcome"] == "accepted"
    assert (folder / "published.txt").read_text() == f"Tides more{ADVICE} more\n"
    names = [each["name"] for each in events(run)]
    assert [names.count(each) for each in ("run.guided.v1", "draft.critiqued.v1", "draft.published.v1")] == [1, 3, 1]
    assert document("audit", run, "--verify")["verified"]
    assert ended(server, begun(server, "Waves"))["outcome"] == "accepted"
    assert server.stop() == 0


def test_a_word_that_was_taken_while_the_store_was_locked_is_recorded_and_the_run_goes_on(
    folder: Path, calling: ThreadPoolExecutor
) -> None:
    with served(folder, "loop.py") as server:
        run = under_way(server, folder)
        with locked(folder / "store.db"):
            said = guiding(calling, server, run).result(30)
            assert (said.status_code, said.json()["event"]) == (202, None)
            until(lambda: "coordinator" in interrupted(server))
            (folder / "hold").unlink()
        require_all(server, folder, run)


def test_a_run_goes_on_after_the_file_of_the_lease_was_locked(folder: Path, calling: ThreadPoolExecutor) -> None:
    with served(folder, "loop.py") as server:
        run = under_way(server, folder)
        with locked(folder / "store.relay.db"):
            guided = guiding(calling, server, run)
            until(lambda: "lease" in interrupted(server))
            (folder / "hold").unlink()
        assert guided.result(30).status_code in {200, 202}
        require_all(server, folder, run)


def test_a_run_goes_on_after_a_table_of_postgresql_was_locked(
    folder: Path, calling: ThreadPoolExecutor, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRAFT_STORE", postgres_url)
    with served(folder, "loop.py", REDRAFT_STORE=postgres_url) as server:
        run = under_way(server, folder)
        with psycopg.connect(postgres_url) as other:
            other.execute("LOCK TABLE stored_events IN EXCLUSIVE MODE")
            said = guiding(calling, server, run).result(30)
            assert (said.status_code, said.json()["event"]) == (202, None)
            until(lambda: "coordinator" in interrupted(server))
            (folder / "hold").unlink()
        require_all(server, folder, run)


def test_a_run_goes_on_after_all_connections_to_postgresql_were_cut(
    folder: Path, calling: ThreadPoolExecutor, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRAFT_STORE", postgres_url)
    with served(folder, "loop.py", REDRAFT_STORE=postgres_url) as server:
        run = under_way(server, folder)
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(_END_OTHERS)
        until(lambda: "lease" in interrupted(server))
        assert guiding(calling, server, run).result(30).status_code in {200, 202}
        (folder / "hold").unlink()
        require_all(server, folder, run)


def test_a_server_whose_place_another_process_took_meanwhile_ends_and_says_so(folder: Path) -> None:
    with served(folder, "loop.py") as server:
        under_way(server, folder)
        with locked(folder / "store.relay.db") as other:
            until(lambda: "lease" in interrupted(server))
            other.execute(_TAKE, (time.monotonic() + 2 * LASTS - 1,))
        assert server.process.wait(30) == 2
        *_, last = server.log.read_text().splitlines()
        assert "another process serves this store already, or a coordinator does: process 1 on another" in last


def test_a_file_of_the_lease_that_is_locked_at_the_start_is_waited_for(folder: Path) -> None:
    with served(folder, "loop.py") as server:
        assert server.stop() == 0
    with locked(folder / "store.relay.db"):
        refused = spawn("serve", "loop.py", "--port", "0", "--patience", "1", folder=folder, REDRAFT_LOG_FORMAT="text")
        assert refused.code == 5
        assert "its database does not answer, or another process keeps it locked" in refused.err.splitlines()[-1]
