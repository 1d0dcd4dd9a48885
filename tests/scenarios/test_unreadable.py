"""Rows that this release cannot read, and runs that a person sets aside: one bad run is one bad run."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from base64 import b64encode
from contextlib import closing
from pathlib import Path

import pytest
from tests.app.cli_calls import call, one_line, said

from redraft.app.settings.settings import read_settings
from redraft.app.wiring.local import open_readonly
from redraft.events.errors import SetAside
from redraft.events.messages.codec import GENESIS, HASHED, _fingerprint

SAMPLES = Path(__file__).parents[1] / "samples"

FLOW = """
from redraft.actors import Critique, Workflow, critic, generator, score

@generator
def write(brief):
    return brief.text

@critic
def judge(draft):
    return Critique(1.0)

flow = Workflow("flow").start_with(write).then(judge)
"""


@pytest.fixture(autouse=True)
def folder(home: Path) -> Path:
    (home / "flow.py").write_text(FLOW)
    return home


def runs() -> list[dict[str, object]]:
    return json.loads(said("list", "--json"))  # type: ignore[no-any-return]


def ran(brief: str) -> str:
    return str(json.loads(said("run", "flow.py:flow", brief, "--json"))["run"])


def put(run: str | bytes | None, version: object, name: object, state: object) -> None:
    """Puts a row into the table, past the program and whatever guards it."""
    with closing(sqlite3.connect("store.db")) as connection, connection:
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("INSERT INTO stored_events VALUES (?, ?, ?, ?)", (run, version, name, state))


def last_of(run: str) -> tuple[int, str]:
    """The version and the hash of the last event of a run."""
    last = json.loads(said("events", "--run", run, "--json").splitlines()[-1])
    return last["version"], last["hash"]


def later(run: str, name: str, data: dict[str, object], **more: str) -> int:
    """Appends an event as a later release would; gives its version."""
    version, previous = last_of(run)
    put_event(run, version + 1, previous, name, data, **more)
    return version + 1


def put_event(run: str, version: int, previous: str, name: str, data: dict[str, object], **more: str) -> None:
    facts = {"id": f"{run}-{version}", "time": "2030-01-01T00:00:00Z", "previous": previous, "actor": "x", "data": data}
    plain = json.dumps(facts | more, separators=(",", ":")).encode()  # in the layout of a stored event
    own = _fingerprint(run, version, name, plain)
    put(run, version, name, b'%b%b",%b' % (HASHED, own.encode(), plain[1:]))


STRANGERS = [
    ("nonsense", b"\x00\xff"),
    ("draft.generated.v1", None),
    ("run.ended.v1", "no json"),
    (b"\xff\xfe", 7),
    (None, b'{"hash":"'),
    ("step.requested.v1", b'{"data": 1}'),
]


@pytest.mark.parametrize(("name", "state"), STRANGERS)
def test_a_strangers_row_concerns_its_run_alone(name: object, state: object) -> None:
    good, bad = ran("one"), ran("two")
    version = last_of(bad)[0] + 1
    put(bad, version, name, state)
    third = ran("three")  # what comes after it goes on
    statuses = {str(line["run"]): line["status"] for line in runs()}
    assert statuses == {good: "ended", bad: "unreadable", third: "ended"}
    lines = said("events").splitlines()
    assert sum("cannot be read" in line for line in lines) == 1
    assert third in lines[-1]
    (told,) = [json.loads(each) for each in said("events", "--json").splitlines() if "unreadable" in json.loads(each)]
    assert (told["run"], told["version"]) == (bad, version)
    said("show", good)
    shown = call("show", bad)
    assert shown.code == 0
    assert f"cannot be read from event {version} on" in shown.err
    checked = call("doctor")
    (warned,) = [line for line in checked.out.splitlines() if "cannot be read from event" in line]
    assert warned.startswith("warn")
    assert f"run {bad} cannot be read from event {version} on (position " in warned
    assert f"redraft quarantine {bad} --reason" in warned
    assert checked.code == 0, checked.out


def test_a_run_is_read_to_its_end_beside_a_row_whose_version_is_no_whole_number() -> None:
    bad = ran("one")
    put(bad, last_of(bad)[0] + 0.5, "x", b"y")

    async def read() -> list[str]:
        async with open_readonly(read_settings()) as runtime:
            return [event.name async for event in runtime.client.subscribe(run=bad, follow=False)]

    told = asyncio.run(asyncio.wait_for(read(), 20))
    assert (told[0], told[-1], len(set(told))) == ("run.started.v1", "run.ended.v1", len(told) - 1)


def test_a_row_without_a_number_or_of_no_run_stops_nobody() -> None:
    good = ran("one")
    put("stranger", "first", "x", b"y")
    put("stranger", 1, "x", b"y")
    assert {str(line["run"]): line["status"] for line in runs()} == {good: "ended", "stranger": "unreadable"}
    said("events")
    assert call("doctor").code == 0


def test_what_checks_a_store_ends_beside_a_run_whose_id_is_no_valid_text() -> None:
    ran("one")
    for strange in (b"\xff\xfe", None):
        put(strange, 1, "x", b"y")
    with closing(sqlite3.connect("store.db")) as connection, connection:
        connection.execute("INSERT INTO stored_events VALUES (CAST(x'ff41' AS TEXT), 1, 'x', x'79')")
    checked = call("audit", "--all", "--verify")
    assert checked.code == 1
    assert "3 rows of stored_events name a run by what is no text" in checked.err
    assert "IndexError" not in call("doctor").out


def test_an_event_of_a_later_release_stops_its_run_and_is_read_after_the_upgrade(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, newer = ran("one"), ran("two")
    version = later(newer, "run.sung.v1", {"tune": "la"})
    assert {str(line["run"]): line["status"] for line in runs()} == {good: "ended", newer: "unreadable"}
    assert "no event is named 'run.sung.v1'; it may come from a later version of Redraft" in call("doctor").out
    assert call("audit", newer, "--verify").code == 0  # the chain holds, whatever the event means
    from redraft.events.messages import codec

    monkeypatch.setitem(codec.UPCASTS, "run.sung.v1", ("run.guided.v1", lambda data: {"advice": "la", "by": "x"}))
    found = {str(line["run"]): line for line in runs()}
    assert (found[newer]["status"], found[newer]["version"]) == ("ended", version)
    assert "cannot be read" not in call("doctor").out


def test_a_run_of_later_rules_is_left_alone() -> None:
    good = ran("one")
    plan = {"name": "flow", "steps": []}
    data = {"plan": plan, "brief": {"text": "x"}, "at": "2030-01-01T00:00:00Z", "rules": 99}
    put_event("newer", 1, GENESIS, "run.started.v1", data)
    assert {str(line["run"]): line["status"] for line in runs()} == {good: "ended", "newer": "unreadable"}
    assert "follows rules 99 of a later release" in call("doctor").out


def test_a_run_whose_key_was_changed_concerns_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY", b64encode(bytes(range(32))).decode())
    good, bad = ran("one"), ran("two")
    with closing(sqlite3.connect("store.db")) as connection, connection:
        connection.execute("UPDATE redraft_keys SET wrapped = zeroblob(40) WHERE run = ?", (bad,))
    third = ran("three")
    said("rebuild")
    statuses = {str(line["run"]): line["status"] for line in runs()}
    assert statuses == {good: "ended", bad: "unreadable", third: "ended"}
    assert third in said("events").splitlines()[-1]
    assert f"the key of run {bad} was changed" in said("doctor")
    assert call("audit", "--all", "--verify").code == 1
    said("quarantine", bad, "--reason", "its key was changed")
    assert {str(line["run"]): line["status"] for line in runs()}[bad] == "quarantined"


def test_a_store_with_another_key_than_the_one_that_is_given_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY", b64encode(bytes(range(32))).decode())
    ran("one"), ran("two")
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY", b64encode(bytes(32)).decode())
    refused = call("events")
    assert refused.code != 0
    assert "cannot be opened with this encryption key" in one_line(refused)


def test_events_of_a_workflow_pass_over_a_run_whose_start_cannot_be_read() -> None:
    good = ran("one")
    put("newer", 1, "run.started.v1", b"{}")
    put_event("newer", 2, GENESIS, "run.guided.v1", {"advice": "la", "by": "x"})
    lines = said("events", "--workflow", "flow").splitlines()
    assert lines
    assert all(good in line for line in lines)


def test_a_run_is_set_aside_and_all_else_goes_on() -> None:
    good, bad = ran("one"), ran("two")
    assert said("quarantine", bad, "--reason", "it is\nwrong", "--by", "ann") == (
        f"run {bad}: ann set the run aside, and nothing more is done for it: it is wrong\n"
    )
    statuses = {str(line["run"]): (line["status"], line["outcome"]) for line in runs()}
    assert statuses == {good: ("ended", "accepted"), bad: ("quarantined", None)}
    assert "quarantined" in said("list")
    assert "set aside by ann: it is wrong; nothing more is done for it" in said("show", bad)
    again = call("quarantine", bad, "--reason", "once more")
    assert again.code == 2
    assert "is set aside already: it is" in one_line(again)
    assert call("quarantine", good, "--reason", " ").code == 2
    said("audit", bad, "--verify")
    for word in (("guide", bad, "shorter"), ("cancel", bad), ("pause", bad), ("approve", bad)):
        refused = call(*word)
        assert refused.code == 2
        assert f"run {bad} was set aside" in one_line(refused)


def test_runs_that_are_set_aside_are_counted_and_can_be_listed() -> None:
    good, bad = ran("one"), ran("two")
    said("quarantine", bad, "--reason", "it is wrong")
    assert [line["run"] for line in json.loads(said("list", "--status", "quarantined", "--json"))] == [bad]
    assert [line["run"] for line in json.loads(said("list", "--status", "ended", "--json"))] == [good]
    assert "2 in all, 1 ended, 1 set aside" in said("doctor")


def test_an_ended_run_with_a_row_after_its_end_that_is_no_event_is_listed_as_unreadable() -> None:
    bad = ran("one")
    put(bad, last_of(bad)[0] + 1, "x", b"y")
    (line,) = runs()
    assert (line["status"], line["outcome"]) == ("unreadable", None)
    assert "unreadable" in said("list")
    assert json.loads(said("list", "--outcome", "accepted", "--json")) == []


def test_nobody_is_told_to_resume_a_run_that_cannot_be_read() -> None:
    paused = ran("one")
    with closing(sqlite3.connect("store.db")) as database, database:
        for trigger in [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]:
            database.execute(f'DROP TRIGGER "{trigger}"')
        table = "stored_events"
        assert database.execute(f"DELETE FROM {table} WHERE originator_version > 3")  # noqa: S608
    put(paused, 4, "x", b"y")
    said("rebuild")  # the read models were further than the log now is
    shown = call("show", paused)
    assert "cannot be read from event 4" in shown.err
    assert "--resume" not in shown.out


def test_the_remedy_names_a_run_as_a_shell_takes_it() -> None:
    ran("one")
    put("two words; $HOME", 1, "x", b"y")
    assert "redraft quarantine 'two words; $HOME' --reason" in said("doctor")


def test_the_list_stays_readable_beside_a_run_with_an_id_of_3000_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ran("the other")
    put("x" * 3000, 1, "x", b"y")
    assert max(len(line) for line in said("list").splitlines()) <= 200
    assert "the other" in said("list")


def test_a_run_that_cannot_be_read_can_be_set_aside() -> None:
    bad = ran("two")
    later(bad, "run.sung.v1", {"tune": "la"})
    said("quarantine", bad, "--reason", "nobody here sings")
    assert [line["status"] for line in runs()] == ["quarantined"]
    assert "cannot be read" not in call("doctor").out
    assert "set aside by" in call("show", bad).out


def test_an_archive_with_an_event_that_is_not_known_is_refused_before_anything_is_made(folder: Path) -> None:
    ran("one")
    newer = ran("two")
    version = later(newer, "run.sung.v1", {"tune": "la"})
    said("export", "-o", "all.zst")
    refused = call("import", "all.zst", "--store", f"sqlite:///{folder}/other.db")
    assert refused.code == 2
    line = one_line(refused)
    assert f"event {version} of run {newer} (run.sung.v1) cannot be read here: no event is named 'run.sung.v1'" in line
    assert not (folder / "other.db").exists()
    said("export", "--without", newer, "-o", "good.zst")
    said("import", "good.zst", "--store", f"sqlite:///{folder}/other.db")
    assert call("import", "all.zst", "--store", f"sqlite:///{folder}/other.db").code == 2


def test_who_waits_for_a_run_that_is_set_aside_is_told_so() -> None:
    bad, worse = ran("one"), ran("two")
    said("quarantine", bad, "--reason", "it is wrong", "--by", "ann")
    put(worse, last_of(worse)[0] + 1, "x", b"y")
    put("strange", 1, "x", b"{}")
    asyncio.run(waited_for(bad, worse))
    resumed = call("run", "--resume", bad, "-w", "flow.py:flow")
    assert resumed.code == 1, resumed.err
    assert "was set aside by ann: it is wrong" in one_line(resumed)


async def waited_for(bad: str, worse: str) -> None:
    async with open_readonly(read_settings()) as log, asyncio.timeout(20):
        with pytest.raises(SetAside, match=f"run {bad} was set aside by ann: it is wrong"):
            await log.client.wait(bad)
        with pytest.raises(SetAside, match=f"run {bad} was set aside"):
            await log.client.result(bad)
        with pytest.raises(SetAside, match=f"run {worse} cannot be read from event"):
            await log.client.result(worse)
        with pytest.raises(SetAside, match="run strange cannot be read from event 1 on"):
            await log.client.wait("strange", "end")
        with pytest.raises(SetAside, match="run strange cannot be read from event 1 on"):
            await log.client.wait("strange")
        seen = [event async for event in log.client.subscribe(follow=False)]
        assert "run.quarantined.v1" in {event.name for event in seen if event.run == bad}
        assert {event.run for event in seen} == {bad, worse}


def test_of_a_run_that_ends_with_no_event_it_is_told_that_nothing_can_follow() -> None:
    """A coordinator would have dead-lettered what it was sent, and whoever asked would have waited for it."""
    ran("one")
    put("strange", 1, "x", b"{}")
    refused = call("quarantine", "strange", "--reason", "odd", "--bus", "amqp://nobody.invalid:1/")
    assert refused.code == 2
    assert "run strange cannot be set aside by an event: its last row, 1, is not an event" in one_line(refused)


@pytest.mark.parametrize("state", ["{}", None, 7])
def test_a_row_that_holds_no_bytes_is_told_of_when_the_log_is_exported(folder: Path, state: object) -> None:
    good = ran("one")
    put("strange", 1, "x", state)
    refused = call("export", "-o", "all.zst")
    assert refused.code == 1, refused.err
    assert "run strange" in one_line(refused)
    assert not (folder / "all.zst").exists()
    said("export", "--without", "strange", "-o", "good.zst")
    said("import", "good.zst", "--store", f"sqlite:///{folder}/other.db")
    assert good in said("list", "--store", f"sqlite:///{folder}/other.db")


def test_an_archive_with_an_id_twice_names_the_run_and_leaves_nothing(folder: Path) -> None:
    ran("one")
    shutil.copy(SAMPLES / "damaged/coordinators.db", "damaged.db")
    damaged = f"sqlite:///{folder}/damaged.db"
    said("export", "-o", "all.zst", "--store", damaged)
    refused = call("import", "all.zst", "--store", f"sqlite:///{folder}/other.db")
    assert refused.code == 2
    assert "a store takes each id once" in one_line(refused)
    assert "redraft export --without" in refused.err
    assert not list(folder.glob("other*"))
