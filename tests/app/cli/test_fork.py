"""`redraft fork` in one process, on both stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.app.cli_calls import call, document, one_line

LOUD = """
from pathlib import Path
from redraft.actors import critic, generator, refiner
from redraft.actors.workflow.workflow import Workflow
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Critique

def note(what):
    with Path("worked.txt").open("a") as file: file.write(what + "\\n")

@generator
def write(brief): note("write"); return brief.text

@critic
def judge(draft): note("judge"); return Critique(min(1, draft.text.count("!") / 10))

@refiner
def improve(draft): note("improve"); return draft.text + "!"

loud = Workflow("loud").start_with(write).repeat_until(score >= 0.5, max_iterations=2, body=[judge, improve])
"""


@pytest.fixture(autouse=True, params=["sqlite", pytest.param("postgresql", marks=pytest.mark.check)])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one run, exhausted at 0.2 after 2 passes."""
    url = "sqlite:///store.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", url)
    (tmp_path / "loud.py").write_text(LOUD)
    assert call("run", "loud.py:loud", "Tides", "-q", "--tag", "sea").code == 3
    (tmp_path / "worked.txt").unlink()
    return tmp_path


def forked(*arguments: str) -> Any:
    said = call("fork", *arguments, "-w", "loud.py:loud", "--json", "-q")
    assert said.code in (0, 3), said.err
    return json.loads(said.out)


def events(run: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in call("events", "--run", run, "--json").out.splitlines()]


def before(run: str, name: str) -> int:
    """The last event before the last one of this name."""
    return max(each["version"] for each in events(run) if each["name"] == name) - 1


def test_a_run_that_ended_too_soon_goes_on_from_before_its_end(folder: Path):
    (parent,) = document("list")
    at = before(parent["run"], "loop.closing.v1")
    result = forked("last", "--at", str(at), "--set", "max_iterations=9", "--tag", "again")
    assert (result["outcome"], result["score"], result["draft"]["text"]) == ("accepted", 0.5, "Tides!!!!!")
    assert (folder / "worked.txt").read_text().split() == ["judge", "improve"] * 3 + ["judge"]
    fork, _ = document("list")
    assert (fork["parent"], fork["tags"]) == ({"run": parent["run"], "version": at}, ["again"])
    told = call("audit", fork["run"], "--verify").out.splitlines()
    assert told[1] == f"it is a fork of run {parent['run']} at event {at}, whose events it repeats word for word"
    assert len(call("audit", parent["run"], "--verify").out.splitlines()) == 1
    assert document("show", "last")["parent"] == fork["parent"]
    shown = call("show", "last").out
    assert f"a fork of {parent['run']} at event {at}, " in shown.splitlines()[0]
    assert "judge  score 0.10, draft 2, done before the fork" in shown
    story = call("audit", "last").out
    assert f"as a fork of run {parent['run']} at event {at}" in story
    repeated = [each for each in events(fork["run"]) if each.get("repeats")]
    assert [each["repeats"] for each in repeated] == [each["id"] for each in events(parent["run"])[1:at]]


def test_a_fork_has_another_brief_and_keeps_its_parents_tags(folder: Path):
    result = forked("last", "--at", "1", "--brief", "Moons and planets")
    assert result["draft"]["text"] == "Moons and planets!!"
    assert document("list")[0]["tags"] == ["sea"]
    assert (folder / "worked.txt").read_text().split()[0] == "write"


def test_a_fork_of_a_fork_at_a_time_shows_what_the_first_worker_was_given():
    parent = document("list")[0]["run"]
    time = next(each["time"] for each in events(parent) if each["name"] == "draft.generated.v1")
    forked("last", "--at", time)
    middle = document("list")[0]
    assert middle["parent"]["version"] == max(each["version"] for each in events(parent) if each["time"] <= time)
    forked("last", "--at", "6")
    found = document("show", "last", "--step", "write")
    assert (found["run"], found["version"]) == (parent, 2)
    assert found["command"]["request"]["run"] == parent


@pytest.mark.parametrize("key", ["", " "])
def test_a_key_of_blanks_is_refused_for_each_call_would_be_a_fork_more(folder: Path, key: str):
    refused = call("fork", "last", "--at", "4", "--key", key, "-w", "loud.py:loud", "-q")
    assert (refused.code, one_line(refused)) == (2, "--key is empty: give it a word, such as notes-7, or leave it out")


def test_the_same_key_is_the_same_fork(folder: Path):
    first = forked("last", "--at", "4", "--key", "k")
    parent = document("list")[1]["run"]
    (folder / "worked.txt").unlink()
    again = forked(parent, "--at", "4", "--key", "k")
    assert again["run"] == first["run"]
    assert not (folder / "worked.txt").exists()
    said = call("fork", parent, "--at", "5", "--key", "k", "-w", "loud.py:loud", "-q")
    assert (said.code, said.out) == (2, "")
    assert "key 'k' was used for another parent" in one_line(said)
    said = call("fork", parent, "--at", "4", "--key", "k", "--set", "max_iterations=7", "-w", "loud.py:loud", "-q")
    assert one_line(said) == f"key 'k' was used for another setting: run {first['run']}; give another key"
    said = call("fork", parent, "--at", "4", "--key", "k", "--set", "state.tone=calm", "-w", "loud.py:loud", "-q")
    assert "key 'k' was used for another change of the state" in one_line(said)
    said = call("fork", parent, "--at", "4", "--key", "k", "--tag", "lake", "-w", "loud.py:loud", "-q")
    assert "key 'k' was used for other tags" in one_line(said)


def test_the_same_key_is_the_same_fork_where_it_changes_the_state_too(folder: Path):
    parent = document("list")[0]["run"]
    calm = (parent, "--at", "4", "--key", "k", "--set", "state.tone=calm")
    assert forked(*calm)["run"] == forked(*calm)["run"]
    again = (forked(*calm)["run"], "--at", "6", "--key", "again", "--set", "state.tone=calm")
    assert forked(*again)["run"] == forked(*again)["run"]


def test_a_value_of_the_state_is_set_by_its_name(folder: Path):
    said = call("fork", "last", "--at", "4", "--set", "state=calm", "-w", "loud.py:loud", "-q")
    assert (said.code, "or state.NAME for a value of the state" in one_line(said)) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("last", "--at", "99"), 2, "--at 99: run "),
        (("last", "--at", "0"), 2, "give 1 to "),
        (("last", "--at", "noon"), 2, "is neither the number of an event nor a time"),
        (("last", "--at", ""), 2, "--at is empty"),
        (("last", "--at", "0s"), 2, "nothing is left to do; fork at an earlier one"),
        (("last",), 2, "missing option '--at'"),
        (("last", "--at", "3", "--set", "until=score >="), 2, "--set until: condition, column 9"),
        (("last", "--at", "3", "--set", "tempo=9"), 2, "--set tempo: no step has this"),
        (
            ("last", "--at", "6", "--set", "write.timeout=9"),
            2,
            "write is already done at event 6; fork at an earlier one",
        ),
        (("last", "--at", "3", "--brief", "missing.md"), 2, "there is no such file"),
        (("last", "--at", "3", "--tag", "two words"), 2, "tag 'two words'"),
        (("last", "--at", "3", "--out", "x.md"), 2, "--out needs a step by the publisher file"),
        (("last", "--at", "3", "--set", "judge.actor=nobody"), 2, "there is no critic 'nobody'"),
        (("nobody", "--at", "3"), 4, "no run 'nobody'"),
    ],
)
def test_what_cannot_be_forked_is_told_in_one_line_and_leaves_nothing(
    folder: Path, arguments: tuple[str, ...], code: int, said: str
):
    count = len(call("events", "--json").out.splitlines())
    result = call("fork", *arguments, "-w", "loud.py:loud", "-q")
    assert (result.code, result.out) == (code, "")
    assert said in one_line(result)
    assert len(call("events", "--json").out.splitlines()) == count
    assert not (folder / "worked.txt").exists()


def test_functions_are_those_of_the_file_that_the_run_began_with_unless_others_are_named(folder: Path):
    forked = call("fork", "last", "--at", "3", "-q", "--set", "max_iterations=9")
    assert (forked.code, forked.out) == (0, "Tides!!!!!"), forked.err
    again = call("fork", "last", "--at", "3", "-q", "--actors", "loud.py")
    assert (again.code, again.out) == (0, "Tides!!!!!"), again.err
    (folder / "loud.py").rename(folder / "moved.py")
    refused = call("fork", "last", "--at", "3", "-q")
    assert refused.code == 2
    assert one_line(refused).endswith(
        "loud.py, which the run began with, is not there; name the file with --workflow or --actors"
    )
