"""`redraft projections` and `redraft rebuild` with one's own projection: listed, shown, followed, rebuilt, dropped."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from tests.app.cli_calls import Said, call, one_line, start

MINE = """
from redraft.events.messages.domain_events import {event}
from redraft.projections import Projection, Set, Table

def apply(event):
    if isinstance(event.data, {event}):
        yield Set("words", (event.run,), {{}}, {{"count": {count}}}, new={{"run": event.run, "count": 0}})

mine = Projection("words", {version}, (Table("words", {{"run": "TEXT NOT NULL", "count": "INTEGER NOT NULL"}}),), apply)
"""

HANGING = """
import time
from pathlib import Path
from redraft.events.messages.domain_events import RunStarted
from redraft.projections import Projection, Put, Table

def apply(event):
    Path("begun").touch()
    while not Path("free").exists():
        time.sleep(0.02)
    if isinstance(event.data, RunStarted):
        yield Put("begun", {"run": event.run})

mine = Projection("runs_begun", 1, (Table("begun", {"run": "TEXT NOT NULL"}),), apply)
"""


def write(version: int = 1, count: str = "len(event.data.brief.text.split())", event: str = "RunStarted") -> None:
    Path("mine.py").write_text(MINE.format(version=version, count=count, event=event))


@pytest.fixture(autouse=True)
def a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    write()
    assert call("run", "The sea is calm.", "--quiet").code == 0


def document(*arguments: str) -> object:
    said = call(*arguments, "--json")
    assert said.err == ""
    return json.loads(said.out)


def states() -> dict[str, dict[str, object]]:
    return {each["name"]: each for each in json.loads(call("projections", "list", "--json").out)}


def test_ones_own_projection_is_shown_listed_rebuilt_and_dropped():
    (row,) = document("projections", "show", "mine.py:mine")["words"]  # type: ignore[index]
    assert row["count"] == 4
    assert states()["words"]["rows"] == {"words": 1}
    assert call("run", "The sea was calm again.", "--quiet").code == 0
    assert states()["words"]["behind"] > 0  # type: ignore[operator]
    assert len(document("projections", "show", "mine.py")["words"]) == 2  # type: ignore[index]
    assert document("rebuild", "runs", "mine.py:words", "runs")["projections"] == ["runs", "words"]
    done = document("rebuild", "mine.py:words")
    assert (done["projections"], done["same"], done["differ"]) == (["words"], True, {"words": 0})  # type: ignore[index]
    assert call("projections", "drop", "words").out == "the projection 'words' was dropped\n"
    assert "words" not in states()
    assert call("projections", "drop", "words").code == 2


def test_a_new_version_takes_the_place_of_the_old_one():
    assert document("projections", "show", "mine.py")
    write(2, "7")
    (row,) = document("projections", "show", "mine.py")["words"]  # type: ignore[index]
    assert row["count"] == 7
    assert states()["words"]["version"] == 2
    write(1)
    assert "was made by a later version (2, not 1)" in one_line(call("projections", "show", "mine.py"))


def test_one_that_stops_is_told_of_everywhere_and_goes_on_when_mended():
    write(1, "1 / 0", "StepRequested")
    said = call("projections", "show", "mine.py")
    assert said.code == 5
    assert "'words' has stopped at event 2: ZeroDivisionError: division by zero (mine.py, line 7)" in one_line(said)
    assert states()["words"]["failed"] == 2
    listed = call("projections", "list")
    assert listed.code == 1
    assert "STOPPED at event 2: ZeroDivisionError" in listed.out
    doctor = call("doctor")
    assert doctor.code == 1
    assert "words has stopped at event 2: ZeroDivisionError" in doctor.out
    assert call("list").code == 0  # the others go on
    said = call("rebuild", "mine.py")
    assert said.code == 1
    assert said.out == ""
    assert "the projection 'words' could not be rebuilt: event 2: ZeroDivisionError" in one_line(said)
    found = json.loads(call("rebuild", "mine.py", "--json").out)
    assert (found["projections"], found["rows"], found["same"]) == ([], {}, None)
    assert found["stopped"].keys() == {"words"}
    write(1, "1", "StepRequested")
    assert document("projections", "show", "mine.py")
    assert call("doctor").code == 0


def test_a_follower_keeps_it_up_to_date_until_it_is_told_to_end(tmp_path: Path):
    with start("projections", "follow", "mine.py:mine", folder=tmp_path) as process:
        assert call("run", "One two.", "--quiet").code == 0
        deadline = time.monotonic() + 60
        while states().get("words", {}).get("rows") != {"words": 2}:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_runs_go_on_while_the_function_of_a_follower_hangs(tmp_path: Path):
    Path("hanging.py").write_text(HANGING)
    with start("projections", "follow", "hanging.py:mine", folder=tmp_path) as process:
        deadline = time.monotonic() + 60
        while not Path("begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        said = call("run", "One two.", "--quiet")
        assert said.code == 0, said.err
        Path("free").touch()
        while states().get("runs_begun", {}).get("rows") != {"begun": 2}:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("projections", "show", "rnus"), "no projection is named 'rnus'; did you mean 'runs'?"),
        (("projections", "show", "mine.py:yours"), "mine.py: there is no projection 'yours' in it; did you mean"),
        (("projections", "show", "mine.py", "--table", "x"), "mine.py has no such table; there are words"),
        (("rebuild", "nowhere.py:x"), "there is no such file"),
        (("rebuild", "empty.py"), "there is no projection in it"),
        (("rebuild", "taken.py"), "the table 'runs' is that of the projection 'runs'; name it otherwise"),
        (("rebuild", "reserved.py"), "line 6: ValueError: a table cannot be named 'tracking'"),
        (("rebuild", "keyword.py"), "table order: it cannot be made, see its names and indexes: near"),
    ],
)
def test_what_cannot_be_is_one_line(arguments: tuple[str, ...], said: str):
    Path("empty.py").write_text("x = 1\n")
    for file, name in (("taken", "runs"), ("reserved", "tracking"), ("keyword", "order")):
        Path(f"{file}.py").write_text(
            "from redraft.projections import Projection, Table\n\n\ndef apply(event): return ()\n\n"
            f"one = Projection('{name}_', 1, (Table('{name}', {{'a': 'TEXT NOT NULL'}}),), apply)\n"
        )
    result: Said = call(*arguments)
    assert (result.code, result.out) == (2, "")
    assert said in one_line(result)
