"""Two deployments share one PostgreSQL database: each has all of its tables in the schema that its URL names."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from tests.app.deployments import Deployment, deployment

pytestmark = pytest.mark.check


def run_through(there: Deployment) -> str:
    """Runs one loop with a coordinator and a worker; returns the run's id."""
    there.start("coordinator", "coordinator")
    there.start("worker", "worker", "loop.py")
    (there.folder / "listener.py").write_text("def hear(event):\n    pass\n")
    there.start("listener", "subscribe", "listener.py:hear", "--name", "ours", "--health-file", "alive")
    there.until("the listener serves", (there.folder / "alive").exists)
    said = there.call("submit", "loop.py:loop", "a text", "--wait", "--json")
    assert said.code == 0, said.err
    there.until("the listener has heard of the end", lambda: there.json("subscriptions", "list")[0]["lag"] == 0)
    return str(json.loads(said.out)["run"])


def tables(database: str, schema: str) -> set[str]:
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
    return {name for (name,) in found}


def test_two_deployments_in_two_schemas_of_one_database(tmp_path: Path, postgres_server: str) -> None:
    given = psycopg.conninfo.conninfo_to_dict(postgres_server)
    database = "postgresql://?" + "&".join(f"{name}={value}" for name, value in given.items())
    folders = [tmp_path / name for name in ("drafts", "letters")]
    for folder in folders:
        folder.mkdir()
    stores = [f"{database}&schema={folder.name}" for folder in folders]
    with deployment(folders[0], stores[0]) as drafts, deployment(folders[1], stores[1]) as letters:
        runs = [run_through(there) for there in (drafts, letters)]
        for there, run, other in ((drafts, runs[0], runs[1]), (letters, runs[1], runs[0])):
            assert [each["run"] for each in there.json("list")] == [run]
            assert there.call("show", other).code == 4
            checked = there.call("audit", "--all", "--verify")
            assert checked.code == 0, checked.err
            rebuilt = there.call("rebuild")
            assert rebuilt.code == 0, rebuilt.err
            assert [each["run"] for each in there.json("list")] == [run]
    made = tables(postgres_server, "drafts")
    assert made >= {"stored_events", "redraft_event_ids", "redraft_leases", "redraft_relay", "runs", "steps"}
    assert made == tables(postgres_server, "letters")
    assert not tables(postgres_server, "public")
    with psycopg.connect(postgres_server) as connection, pytest.raises(psycopg.Error, match="events are never changed"):
        connection.execute("DELETE FROM letters.stored_events")
