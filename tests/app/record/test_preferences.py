"""`redraft export --as preferences`: pairs for training, of those who agreed, and of nobody else."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.app.cli_calls import call, one_line, start, until

LOOP = """
from redraft.app import Critique, Workflow, approve, approved, critic, generator, refiner, score

TEXTS = ["first", "worse", "better", "best"]

@generator
def write(brief):
    return TEXTS[0]

@critic
def judge(draft):
    return Critique(0.9 if draft.text not in TEXTS else [0.4, 0.2, 0.6, 0.9][TEXTS.index(draft.text)], errors=("dull",))

@refiner
def improve(draft, history):
    return TEXTS[min(3, len(history.rounds))]

loop = Workflow("loop").start_with(write)
loop = loop.repeat_until(score >= 0.9, max_iterations=6, name="Loop", body=[judge, improve])

asks = Workflow("asks").start_with(write)
asks = asks.repeat_until(approved, max_iterations=6, name="Loop", body=[judge, approve(), improve])
"""


@pytest.fixture
def folder(home: Path) -> Path:
    (home / "loop.py").write_text(LOOP)
    return home


def run(brief: str, *options: str) -> str:
    said = call("run", "loop.py:loop", "--text", brief, "--json", "--quiet", *options)
    assert said.code == 0, said.err
    return str(json.loads(said.out)["run"])


def pairs(*options: str, consent: str = "ok") -> list[dict[str, Any]]:
    said = call("export", "--as", "preferences", "--consent", consent, *options)
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


def waits_with(draft: int) -> bool:
    said = call("events", "--json")
    asked = [json.loads(line) for line in said.out.splitlines() if '"approval.requested' in line]
    return bool(asked) and asked[-1]["data"]["draft"]["version"] == draft


def texts(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["chosen"][0]["content"], each["rejected"][0]["content"]) for each in found]


def test_the_better_draft_comes_first_whichever_was_made_first(folder: Path) -> None:
    made = run("Write.", "--tag", "ok")
    run("Write something else.")
    found = pairs()
    assert texts(found) == [("first", "worse"), ("better", "first"), ("best", "better")]
    pair = found[0]
    assert pair["prompt"] == [{"role": "user", "content": "Write."}]
    assert pair["chosen"] == [{"role": "assistant", "content": "first"}]
    assert (pair["chosen_score"], pair["rejected_score"], pair["basis"]) == (0.4, 0.2, "score")
    assert pair["rejected_critiques"][0]["errors"] == ["dull"]
    assert (pair["run"], pair["workflow"], pair["drafts"]) == (made, "loop", [1, 2])


def test_filters(folder: Path) -> None:
    made = run("Write.", "--tag", "ok")
    other = run("Write more.", "--tag", "ok")
    assert texts(pairs("--run", made, "--min-gap", "0.25")) == [("best", "better")]
    assert texts(pairs("--without", other, "--min-score", "0.9")) == [("best", "better")]
    assert pairs("--by-people") == pairs("--workflow", "none") == pairs(consent="other") == []
    assert len(pairs("--since", "1h")) == 6
    said = call("export", "--as", "preferences", "--consent", "ok", "-o", "pairs.jsonl")
    assert said.out == "pairs.jsonl: 6 pairs of 2 runs exported\n"
    assert len((folder / "pairs.jsonl").read_text().splitlines()) == 6


def test_runs_of_the_same_texts_give_each_pair_once(folder: Path) -> None:
    run("Write.", "--tag", "ok")
    run("Write.", "--tag", "ok")
    assert len(pairs()) == 3


def test_nothing_is_written_without_a_tag_that_says_yes(folder: Path) -> None:
    assert "needs --consent TAG" in one_line(call("export", "--as", "preferences"))
    assert "are for --as preferences" in one_line(call("export", "--consent", "ok", "-o", "x"))
    run("Write.", "--tag", "ok")
    assert "cannot be used" in one_line(call("export", "--as", "preferences", "--consent", "a b", "-o", "x"))
    assert not (folder / "x").exists()


def test_what_people_decided_counts_more_than_scores(folder: Path) -> None:
    with start("run", "loop.py:asks", "--text", "Write.", "--tag", "ok", "--quiet", folder=folder) as process:
        until(lambda: waits_with(1))
        assert call("reject", "last", "--draft", "1", "--feedback", "dull", "--by", "ann").code == 0
        until(lambda: waits_with(2))
        assert call("approve", "last", "--draft", "2", "--reason", "well said", "--by", "ann").code == 0
        process.communicate(timeout=60)
    (pair,) = pairs("--by-people")
    assert texts([pair]) == [("worse", "first")]
    assert pair["basis"] == "person"
    assert pair["decisions"] == [
        {"on": "chosen", "decision": "approved", "reason": "well said"},
        {"on": "rejected", "decision": "rejected", "reason": "dull"},
    ]
    assert [each["by"] for each in pairs("--by-people", "--names")[0]["decisions"]] == ["ann", "ann"]


def test_erased_and_encrypted_runs_give_none_unless_they_can_be_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("key", "other"):
        assert call("key", "encryption", name).code == 0
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", "key")
    erased, kept = run("Write.", "--tag", "ok"), run("Write more.", "--tag", "ok")
    assert {each["run"] for each in pairs()} == {erased, kept}
    assert call("erase", erased, "--by", "grace").code == 0
    assert {each["run"] for each in pairs()} == {kept}
    assert "1 run left out: each was erased" in call("export", "--as", "preferences", "--consent", "ok").err
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "0")
    for key in (None, "other"):
        if key is None:
            monkeypatch.delenv("REDRAFT_ENCRYPT_KEY_FILE")
        else:
            monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", key)
        said = call("export", "--as", "preferences", "--consent", "ok")
        assert (said.code, said.out) == (0, "")
        assert "1 run left out: each cannot be opened with the encryption key that is given here" in said.err


def test_a_record_that_was_changed_gives_none(folder: Path) -> None:
    run("Write.", "--tag", "ok")
    with sqlite3.connect(folder / "store.db") as database:
        database.execute("DROP TRIGGER stored_events_never_updated")
        database.execute("UPDATE stored_events SET state = CAST(replace(state, 'better', 'BETTER') AS BLOB)")
    database.close()
    said = call("export", "--as", "preferences", "--consent", "ok")
    assert (said.code, said.out) == (0, "")
    assert "1 run left out: each is not what was recorded" in said.err


def test_a_fork_gives_what_its_parent_said_only_if_that_agreed_too(folder: Path) -> None:
    parent = run("Write.")
    at = str(versions_until(parent, "worse"))
    again = ["--workflow", "loop.py:loop", "--quiet", "--set", "until=score >= 0.6", "--brief", "Say."]
    fork = call("fork", parent, "--at", at, "--tag", "ok", *again)
    assert fork.code == 0, fork.err
    assert texts(pairs()) == [], "the draft before is the parent's"
    agreed = run("Write more.", "--tag", "yes")
    assert call("fork", agreed, "--at", at, *again).code == 0
    found = {(each["prompt"][0]["content"], *text) for each in pairs(consent="yes") for text in texts([each])}
    own = {("Write more.", "first", "worse"), ("Write more.", "better", "first"), ("Write more.", "best", "better")}
    assert found == {*own, ("Say.", "better", "first")}


def versions_until(run: str, text: str) -> int:
    """The number of the event that made the draft of this text."""
    events = map(json.loads, call("events", "--run", run, "--json").out.splitlines())
    return next(each["version"] for each in events if each["data"].get("draft", {}).get("text") == text)
