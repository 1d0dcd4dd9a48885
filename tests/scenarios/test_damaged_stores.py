"""A store in which several coordinators left damage, made by the release before appends named what they build on.

`samples/damaged/coordinators.db` holds seven runs as that release recorded them: of four, what was decided on an append
that conflicted was recorded all the same. The file opens, what is wrong is named, and the other runs go on.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.app.cli_calls import call

SAMPLE = Path(__file__).parents[1] / "samples/damaged/coordinators.db"
DAMAGED = {
    "18275.r0": "an answer is counted twice",
    "17238.r0": "an event, by its id, is there at two positions",
    "41444.r1": "version 10 is missing",
    "40101.r1": "an event does not follow the one before it",
}
WHOLE = {"831.r2": "cancelled", "6.r0": "accepted", "962.r0": "failed"}
EVENTS = 107


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the file, which is also the store that the commands look at."""
    file = tmp_path / "damaged.db"
    shutil.copy(SAMPLE, file)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{file}")
    return file


def test_list_has_every_run():
    said = call("list", "--json")
    assert said.code == 0, said.err
    outcomes = {run["run"]: run["outcome"] for run in json.loads(said.out)}
    assert set(outcomes) == {*DAMAGED, *WHOLE}
    assert {run: outcomes[run] for run in WHOLE} == WHOLE


def test_events_tells_all_of_them():
    said = call("events", "--json")
    assert said.code == 0, said.err
    assert len(said.out.splitlines()) == EVENTS


@pytest.mark.parametrize("run", WHOLE)
def test_a_whole_run_is_shown_verified_and_exported(run: str, tmp_path: Path):
    assert call("show", run).code == 0
    assert call("audit", run, "--verify").code == 0
    assert call("audit", run, "--export", str(tmp_path / "run.jsonl")).code == 0


@pytest.mark.parametrize("run", DAMAGED)
def test_a_damaged_run_is_told_in_lines(run: str):
    for command in (["audit", run, "--verify"], ["show", run], ["audit", run]):
        said = call(*command)
        assert "Traceback" not in said.err + said.out
        assert said.code in (0, 1)


def test_doctor_goes_on():
    said = call("doctor", "--json")
    assert said.code in (0, 1)
    assert "Traceback" not in said.err + said.out
    assert json.loads(said.out)


def test_audit_of_all_names_the_damaged_runs_and_no_other():
    said = call("audit", "--all", "--verify", "--json")
    assert said.code == 1
    told = json.loads(said.out)
    assert {each["run"] for each in (*told["faults"], *told["findings"])} == set(DAMAGED)


@pytest.mark.parametrize("run", DAMAGED)
def test_audit_of_a_damaged_run_says_what_is_wrong(run: str):
    said = call("audit", run, "--verify")
    assert said.code == 1
    assert f"of run {run}" in said.err


def test_doctor_deep_names_the_damaged_runs_and_no_other():
    said = call("doctor", "--deep")
    assert said.code == 1
    assert {run for run in (*DAMAGED, *WHOLE) if run in said.out} == set(DAMAGED)
