"""Our recorders pass the test cases that the `eventsourcing` library ships for recorders.

These cases write rows that are no events of Redraft, so the tables are without the rules for events: the rules have
tests of their own.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from getpass import getuser
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from eventsourcing.persistence import ApplicationRecorder, InfrastructureFactory
from eventsourcing.tests import persistence
from eventsourcing.utils import Environment
from tests.appending import append_to

from redraft.events.backends import open_recorder, open_store
from redraft.events.postgres.connection import Database
from redraft.events.postgres.recorder import Datastore as PostgresDatastore
from redraft.events.postgres.recorder import PostgresRecorder
from redraft.events.postgres.schema import prepare
from redraft.events.sqlite.recorder import Datastore, SQLiteRecorder
from redraft.events.store.event_store import NewEvent

Notes = Callable[..., list[NewEvent]]

GUIDE = Path(__file__).parents[3] / "docs/audit.md"


class WithoutRules(SQLiteRecorder):
    """It does not add the rules before its first insert."""

    _has_rules = True


def sqlite_recorder(path: Path) -> SQLiteRecorder:
    path.touch()
    recorder = WithoutRules(Datastore(path))
    recorder.create_table()
    return recorder


def postgres_recorder(url: str) -> PostgresRecorder:
    database = Database(url)
    schema = prepare(database)
    with database.connect() as connection:
        connection.execute("DROP TRIGGER IF EXISTS redraft_event_follows ON stored_events")
    return PostgresRecorder(PostgresDatastore(database, schema))


def wait_for_readers() -> None:
    """Waits for threads that the library's cases have told to end: who reads while a database is closed may crash."""
    for thread in threading.enumerate():
        if "read_continuously" in thread.name:
            thread.join()


class OnSQLite:
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> Iterator[None]:
        self.recorder = sqlite_recorder(tmp_path / "log.db")
        yield
        wait_for_readers()
        self.recorder.close_writer()
        self.recorder.datastore.close()

    def new_originator_id(self) -> str:
        return str(uuid4())

    def create_recorder(self) -> SQLiteRecorder:
        return self.recorder


class OnPostgres:
    @pytest.fixture(autouse=True)
    def place(self, postgres_url: str) -> Iterator[None]:
        self.recorder = postgres_recorder(postgres_url)
        yield
        wait_for_readers()
        self.recorder.datastore.close()

    def new_originator_id(self) -> str:
        return str(uuid4())

    def create_recorder(self) -> PostgresRecorder:
        return self.recorder


class TestSQLite(OnSQLite, persistence.ApplicationRecorderTestCase[ApplicationRecorder]):
    def test_a_subscription_is_refused_in_one_line(self) -> None:
        with pytest.raises(NotImplementedError, match="does not support subscriptions"):
            self.create_recorder().subscribe()


class TestPostgres(OnPostgres, persistence.ApplicationRecorderTestCase[ApplicationRecorder]):
    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


async def test_the_documented_program_reads_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], notes: Notes
) -> None:
    async with open_store("sqlite:///" + str(tmp_path / "runs.db")) as store:
        await append_to(store, "01m842aka2rdagr64pp2505s37", 0, notes("01m842aka2rdagr64pp2505s37", 2))
    [program] = re.findall(r"```python\n(.*?InfrastructureFactory.*?)```", GUIDE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(program, {})  # noqa: S102
    lines = [line.split(" ", 4) for line in capsys.readouterr().out.splitlines()]
    assert [each[:4] for each in lines] == [
        ["1", "01m842aka2rdagr64pp2505s37", "1", "step.failed.v1"],
        ["2", "01m842aka2rdagr64pp2505s37", "2", "step.failed.v1"],
    ]


def test_the_library_reads_a_store_in_postgresql(postgres_server: str) -> None:
    given = psycopg.conninfo.conninfo_to_dict(postgres_server)
    open_recorder(
        "postgresql://?" + "&".join(f"{key}={value}" for key, value in given.items()) + "&schema=read"
    ).release()
    place = {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": str(given["dbname"]),
        "POSTGRES_HOST": str(given.get("host", "")),
        "POSTGRES_PORT": str(given.get("port", "5432")),
        "POSTGRES_USER": str(given.get("user", getuser())),
        "POSTGRES_PASSWORD": str(given.get("password", "")),
        "POSTGRES_SCHEMA": "read",
        "ORIGINATOR_ID_TYPE": "text",
        "CREATE_TABLE": "n",
    }
    factory = InfrastructureFactory.construct(Environment(env=place))
    assert factory.application_recorder().select_notifications(start=1, limit=10) == []
    factory.close()


class TestOrderOnSQLite(OnSQLite, persistence.NonInterleavingNotificationIDsBaseCase):
    pass


class TestOrderOnPostgres(OnPostgres, persistence.NonInterleavingNotificationIDsBaseCase):
    pass
