"""A damaged run, seen from the command line: audit --verify, audit --all --verify and doctor --deep name it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.app.cli_calls import call, said
from tests.forged import first_events, put_rows, rehashed
from tests.streams import START, Told, article_told

from redraft.events.backends import open_store
from redraft.events.messages.domain_events import DraftCritiqued, IterationStarted, LoopEnded
from redraft.events.messages.envelope import Origin
from redraft.events.store.event_store import NewEvent


def put(run: str, told: list[Told]) -> None:
    """Records these events as they are."""

    async def write() -> None:
        async with open_store("sqlite:///redraft.db") as store:
            events = [NewEvent(Origin(f"{run}/{n}", who), START, event) for n, (who, event) in enumerate(told)]
            await store.append(run, 0, events)

    asyncio.run(write())


@pytest.fixture
def _stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///redraft.db")
    good = article_told()
    put("good", good)
    at = next(number for number, (_, event) in enumerate(good) if isinstance(event, LoopEnded))
    answered = next(told for told in good if isinstance(told[1], DraftCritiqued))
    put("bad", [*good[:at], answered, *good[at:]])


@pytest.mark.usefixtures("_stores")
def test_a_good_run_is_verified_and_a_bad_one_is_named() -> None:
    good, bad = call("audit", "good", "--verify"), call("audit", "bad", "--verify")
    assert (good.code, good.err) == (0, "")
    assert bad.code == 1
    assert "attempt 1 of Refinement[1]/judge was answered in event 6" in bad.err
    assert "redraft quarantine bad --reason" in bad.err
    found = json.loads(call("audit", "bad", "--verify", "--json").out)
    assert [(each["code"], each["run"], each["version"]) for each in found["findings"]] == [("answer-twice", "bad", 19)]
    assert found["verified"] is False


@pytest.mark.usefixtures("_stores")
def test_the_whole_log_and_doctor_name_the_run() -> None:
    everything = call("audit", "--all", "--verify")
    assert everything.code == 1
    assert "event 19 of run bad" in everything.err
    assert everything.out.startswith("2 runs with ")
    assert json.loads(call("audit", "--all", "--verify", "--json").out)["findings"][0]["run"] == "bad"
    checks = json.loads(call("doctor", "--deep", "--json").out)["checks"]
    (records,) = [each for each in checks if each["name"] == "records"]
    assert records["level"] == "fail"
    assert "redraft quarantine RUN --reason" in records["message"]


def test_a_false_cause_is_named_though_every_hash_fits(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said("run", "The sea is calm.", "--quiet")
    rows = asyncio.run(first_events(f"sqlite:///{home}/store.db", 100))
    at = next(index for index, row in enumerate(rows) if row.name.startswith("draft.critiqued"))
    cause = json.loads(rows[0].state)["id"]
    for name, forged in (("same", rehashed(rows, at)), ("false", rehashed(rows, at, causation=cause))):
        monkeypatch.setenv("REDRAFT_STORE", url := f"sqlite:///{home}/{name}.db")
        asyncio.run(put_rows(url, forged))
        assert call("audit", "--all", "--verify").code == call("doctor", "--deep").code == (name == "false")
    named = call("audit", "last", "--verify").err
    assert f"event {at + 1} of run {rows[0].run} (draft.critiqued.v1): its cause is event {at}, which asked" in named


def test_doctor_names_the_event_of_a_run_whose_path_is_not_in_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///redraft.db")
    put("bad", [*article_told()[:2], ("somebody", IterationStarted("Nowhere", 1))])
    (told,) = [line for line in call("doctor").out.splitlines() if "cannot be built" in line]
    assert "run bad cannot be read from event 3 on: it does not follow from the events before it" in told
    assert "its path Nowhere names no step of the plan; redraft audit bad --verify" in told
