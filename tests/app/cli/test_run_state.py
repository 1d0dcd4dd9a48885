"""The state of a run on the command line: what it begins with, how it is shown and compared, and in forks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.app.cli_calls import begin, call, document, one_line, said
from tests.app.deployments import deployment
from tests.app.stateful import STATEFUL


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    monkeypatch.setenv("LOGNAME", "ann")
    (tmp_path / "article.py").write_text(STATEFUL)
    return tmp_path


def run(*arguments: str, workflow: str = "judged") -> dict[str, Any]:
    ended = call("run", f"article.py:{workflow}", "Tides", *arguments, "--json", "-q")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert isinstance(found, dict)
    return found


def values(*arguments: str) -> dict[str, Any]:
    found = document("show", *arguments, "--state")["state"]
    assert isinstance(found, dict)
    return found


def test_a_run_begins_with_the_values_that_it_is_given() -> None:
    ended = run("--set", "state.audience=children", "--set", "state.limit=7")
    assert ended["draft"]["text"] == "Tides for children The moon."
    assert ended["state"]["audience"] == "children"
    assert values("last", "--at", "1") == {"audience": "children", "limit": 7, "tests_pass": False, "notes": ""} | {
        "sources": None
    }


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("children", "children"),
        ('"children"', "children"),
        ("a = b", "a = b"),
        ("", ""),
    ],
)
def test_a_value_is_json_or_else_a_text(given: str, value: object) -> None:
    run("--set", f"state.audience={given}")
    assert values("last", "--at", "1")["audience"] == value


FAULTS = [
    ("state.audiance=x", "state: audiance is no value of the plan's state; did you mean audience?"),
    ("state.limit=many", "state: limit is 'many'; the plan's state has int there"),
    ("state.1x=2", "--set state: '1x' cannot name a value"),
    ("state.class=2", "--set state: 'class' cannot name a value"),
    ("state.limit", "--set 'state.limit': write state.NAME=VALUE, such as state.audience=children"),
    (f"state.limit={'[' * 50_000}", "--set state: a value nests too deep; make it flatter"),
    ("state.limit=99999999999999999999", "--set state: limit is a number of more than 64 bits; write it as text"),
    (f"state.notes={'x' * 262_145}", "state: the state has 262,"),
]


@pytest.mark.parametrize(("setting", "fault"), FAULTS)
def test_a_value_that_cannot_be_is_refused_in_a_line_and_nothing_begins(setting: str, fault: str) -> None:
    refused = call("run", "article.py:judged", "Tides", "--set", setting, "-q")
    assert refused.code == 2
    assert one_line(refused).startswith(fault)
    assert not Path("store.db").exists()


@pytest.mark.parametrize(("setting", "fault"), FAULTS)
def test_a_fork_with_a_value_that_cannot_be_is_refused_and_does_not_begin(setting: str, fault: str) -> None:
    parent = run()["run"]
    refused = call("fork", parent, "--at", "5", "--set", setting, "-q")
    assert refused.code == 2
    assert one_line(refused).startswith(fault)
    assert [each["run"] for each in document("list")] == [parent]


def test_a_new_run_takes_no_other_settings() -> None:
    refused = call("run", "article.py:judged", "Tides", "--set", "until=score >= 1")
    assert refused.code == 2
    told = "--set 'until=score >= 1': a new run is given values of its state; write state.NAME=VALUE"
    assert one_line(refused) == told


def test_a_resumed_run_keeps_its_state() -> None:
    refused = call("run", "--resume", "last", "--set", "state.limit=1")
    assert refused.code == 2
    assert "leave --set out" in one_line(refused)


def test_the_same_key_with_another_state_is_refused() -> None:
    run("--key", "tides-1", "--set", "state.limit=7")
    assert call("run", "article.py:judged", "Tides", "--key", "tides-1", "--set", "state.limit=7", "-q").code == 0
    refused = call("run", "article.py:judged", "Tides", "--key", "tides-1", "-q")
    assert refused.code == 2
    assert "key 'tides-1' was used for another state" in one_line(refused)


def test_the_state_is_shown_with_who_changed_each_value_last() -> None:
    found = run()
    shown = document("show", found["run"], "--state")
    assert list(shown) == ["run", "version", "state", "changes"]
    assert shown["state"]["tests_pass"] is True
    first, second, *_, last = shown["changes"]
    assert (first["version"], first["by"], "path" in first) == (1, "the plan", False)
    assert (second["version"], second["by"], second["path"]) == (3, "step research", "research")
    assert (last["by"], last["path"], last["state"]) == ("critic judge", "Loop[2]/judge", {"limit": 26})
    lines = said("show", found["run"], "--state").splitlines()
    assert lines[0] == f"run {found['run']} after {shown['version']} events"
    assert lines[1].split() == ["name", "value", "changed", "by", "event"]
    assert any(line.split() == ["audience", '"adults"', "the", "plan", "1"] for line in lines)
    assert any("tests_pass" in line and "step run_tests, Loop[2]/run_tests" in line for line in lines)


def test_a_run_without_state_says_so() -> None:
    assert call("run", "The sea is calm.", "-q").code == 0
    assert said("show", "last", "--state").endswith(": it has no state\n")
    assert "--state" not in said("show", "last")
    assert document("show", "last", "--state")["changes"] == []


def test_the_state_is_shown_alone() -> None:
    run()
    assert one_line(call("show", "last", "--state", "--text")).endswith("leave --text out")
    assert one_line(call("show", "last", "--state", "--step", "write")).endswith("leave --step out")
    assert one_line(call("show", "last", "--state", "--follow")).endswith("leave --state out")


def test_a_tree_says_what_steps_changed_and_that_a_loop_without_critics_has_no_score() -> None:
    run("--set", "state.limit=7", workflow="tested")
    shown = said("show", "last")
    assert (
        "Tests  accepted: the condition holds: state.tests_pass; no score: the loop ends by its own condition" in shown
    )
    assert "run_tests  tests_pass = false, draft 1" in shown
    assert "run_tests  tests_pass = true, draft 2" in shown
    assert 'state: audience = "adults", limit = 7' in shown
    run()
    assert "no score" not in said("show", "last")
    assert "score 0.40, limit = 16" in said("show", "last")


def test_the_story_tells_of_each_change() -> None:
    run()
    told = said("audit", "last")
    assert 'the state begins with audience = "adults", limit = 3, sources = null, tests_pass = false' in told
    assert "step run_tests was asked to work on draft 1" in told
    assert "step run_tests set tests_pass = false" in told
    assert "critic judge scored draft 1 at 0.40; it set limit = 16" in told
    run(workflow="tested")
    assert "for 4 iterations at most; the last draft leaves it" in said("audit", "last")


def test_progress_has_a_line_for_each_step_without_a_role() -> None:
    told = call("run", "article.py:tested", "Tides").err
    assert "Tests[2]/run_tests: step run_tests set tests_pass = true" in told


def test_what_a_fork_changes_is_its_authors_and_the_rest_is_its_parents() -> None:
    parent = run("--set", "state.audience=children")["run"]
    forked = call("fork", parent, "--at", "5", "--set", "state.audience=experts", "--set", "max_iterations=3", "-q")
    assert forked.code == 0, forked.err
    shown = document("show", "last", "--state")
    (change,) = [each for each in shown["changes"] if each["by"] == "ann"]
    assert (change["version"], change["state"], "path" in change) == (6, {"audience": "experts"}, False)
    assert values("last", "--at", "5") == values(parent, "--at", "5")
    assert "ann set audience = " in said("audit", "last")


def test_another_brief_of_a_fork_keeps_the_state() -> None:
    parent = run("--set", "state.limit=7")["run"]
    assert call("fork", parent, "--at", "13", "--brief", "Waves", "-q").code == 0
    assert values("last", "--at", "13") == values(parent, "--at", "13")
    assert values("last", "--at", "13")["limit"] == 16  # as a critic changed it: the brief's value does not come back
    assert all(each["by"] != "ann" for each in document("show", "last", "--state")["changes"])


def test_two_versions_of_a_state_are_compared_value_by_value() -> None:
    run()
    told = said("diff", "last", "--state", "1", "3").splitlines()
    assert told[0] == 'sources: null → ["tides.org"]'
    assert told[1] == "notes:"
    assert told[2:] == ["- ", "+ The moon pulls.", "+ The sun pulls too, with half the strength of it."]
    found = document("diff", "last", "--state", "1", "3")
    assert (found["before"]["version"], found["after"]["version"]) == (1, 3)
    assert found["values"][0] == {"name": "sources", "before": None, "after": ["tides.org"]}
    assert "the state is the same after event 3 and after event 4" in said("diff", "last", "--state", "3", "4")


def test_a_fork_is_compared_with_its_parent() -> None:
    parent = run()["run"]
    assert call("fork", parent, "--at", "5", "--set", "state.audience=experts", "-q").code == 0
    assert said("diff", parent, "last", "--state") == 'audience: "adults" → "experts"\n'


def test_drafts_are_still_compared_by_their_numbers() -> None:
    run()
    assert "{+ The moon.+}" in said("diff", "last", "1", "2")
    assert "name two drafts by their numbers" in one_line(call("diff", "last", "one", "2"))
    assert "invalid value for 'B'" in one_line(call("diff", "last", "1"))


def test_each_brief_of_a_batch_may_have_values_of_its_own() -> None:
    lines = ['"Tides"', '{"text": "Waves", "state": {"audience": "experts"}}']
    Path("briefs.jsonl").write_text("\n".join(lines))
    batch = ("run", "--batch", "briefs.jsonl", "article.py:judged", "--json", "-q")
    ended = [json.loads(line) for line in call(*batch, "--set", "state.limit=9").out.splitlines()]
    texts = {each["line"]: each["draft"]["text"] for each in ended}
    assert texts == {1: "Tides for adults The moon.", 2: "Waves for experts The moon."}
    assert [values(each["run"], "--at", "1")["limit"] for each in ended] == [9, 9]
    again = [json.loads(line)["run"] for line in call(*batch, "--set", "state.limit=9").out.splitlines()]
    assert sorted(again) == sorted(each["run"] for each in ended)
    others = [json.loads(line)["run"] for line in call(*batch, "--set", "state.limit=8").out.splitlines()]
    assert not set(others) & set(again)
    refused = call(*batch, "--set", "state.limt=9")
    assert refused.code == 2
    assert one_line(refused).startswith("briefs.jsonl:1: state: limt is no value of the plan's state")


def test_an_erased_run_shows_no_value_any_more(folder: Path) -> None:
    (folder / "settings").mkdir()
    key = folder / "settings" / "key"
    assert call("key", "encryption", str(key)).code == 0
    encrypted = {"REDRAFT_ENCRYPT_NEW_RUNS": "1", "REDRAFT_ENCRYPT_KEY_FILE": str(key)}
    secret = "a very secret audience"  # noqa: S105 - of a test
    with pytest.MonkeyPatch.context() as patch:
        for name, value in encrypted.items():
            patch.setenv(name, value)
        run("--set", f"state.audience={secret}", workflow="tested")
        assert values("last")["audience"] == secret
        for file in folder.glob("store.db*"):
            assert secret.encode() not in file.read_bytes()
        assert call("erase", "last").code == 0
        assert "the values of its state can no longer be read" in said("show", "last", "--state")
        assert document("show", "last", "--state")["state"] == {}
        assert secret not in said("audit", "last")
        refused = call("diff", "last", "last", "--state")
        assert refused.code == 2
        assert "was erased" in one_line(refused)


def test_a_process_of_its_own_begins_shows_and_compares(folder: Path) -> None:
    ended = begin("run", "article.py:judged", "Tides", "--set", "state.audience=children", "-q", folder=folder)
    assert ended.code == 0, ended.err
    assert "children" in begin("show", "last", "--state", folder=folder).out
    assert "sources: null" in begin("diff", "last", "--state", "1", "3", folder=folder).out
    refused = begin("run", "article.py:judged", "Tides", "--set", "state.limit=many", folder=folder)
    assert (refused.code, refused.out) == (2, "")


@pytest.mark.check
def test_a_deployment_begins_and_forks_with_values(tmp_path: Path) -> None:
    with deployment(tmp_path) as there:
        (there.folder / "article.py").write_text(STATEFUL)
        refused = there.call("submit", "article.py:judged", "Tides", "--set", "state.limit=many")
        assert refused.code == 2
        assert refused.err == "redraft: state: limit is 'many'; the plan's state has int there\n"
        there.start("up", "up", "article.py:judged")
        there.serving("up")
        begun = there.json("submit", "article.py:judged", "Tides", "--set", "state.audience=children", "--wait")
        assert begun["draft"]["text"] == "Tides for children The moon."
        assert begun["state"]["tests_pass"] is True
        forked = there.json("fork", begun["run"], "--at", "5", "--set", "state.audience=experts", "--wait")
        assert forked["state"]["audience"] == "experts"
        told = there.call("diff", begun["run"], forked["run"], "--state").out
        assert told == 'audience: "children" → "experts"\n'
