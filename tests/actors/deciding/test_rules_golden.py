"""A run is folded and decided by the rules that it began under, whatever later releases do."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.properties.test_deciding_properties import NOW, RUN
from tests.streams import recorded

from redraft.actors.deciding.decider import continue_from, handle
from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.forking import begin_fork
from redraft.actors.deciding.state import RunState
from redraft.actors.replay.whatif import decide_again
from redraft.events.errors import CodecError, UnknownRules
from redraft.events.messages.codec import decode_message
from redraft.events.messages.commands import StartRun
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import DomainEvent, Parent, RunStarted
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.plan import RULES, Plan, Step

GOLDEN = Path(__file__).parents[2] / "golden"
KINDS = {name: kind for kind, name in EVENT_NAMES.items()}
FILES = sorted(GOLDEN.glob("rules*.jsonl"))
PLAN = Plan("p", (Step("generator", "write", "write"),))


def started(rules: int) -> RunStarted:
    return RunStarted(PLAN, Brief("brief"), NOW, rules=rules)


def events_of(line: dict[str, Any]) -> list[DomainEvent]:
    return [msgspec.convert(each["data"], KINDS[each["name"]], str_keys=True) for each in line["events"]]


def decided_again(line: dict[str, Any]) -> tuple[list[DomainEvent], RunState]:
    """What comes of the same words, said once more."""
    first = events_of(line)[0]
    assert isinstance(first, RunStarted)
    decision = continue_from(RunState(), first, first.at)
    events, state = list(decision.events), decision.state
    for said in line["said"]:
        message = decode_message(said["name"], json.dumps(said["body"]).encode())
        decision = handle(state, message, datetime.fromisoformat(said["at"]))
        events, state = [*events, *decision.events], decision.state
    return events, state


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_recorded_runs_are_folded_and_decided_as_they_were(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines
    for line in map(json.loads, lines):
        recorded_events = events_of(line)
        events, state = decided_again(line)
        assert events == recorded_events, (line["plan"], line["seed"])
        assert fold(recorded_events) == state
        assert f"rules{state.rules}" == path.stem.removesuffix("-state")


def test_there_are_recorded_runs_of_every_version_of_the_rules() -> None:
    assert [path.stem for path in FILES if path.stem != "rules7-state"] == [
        f"rules{number}" for number in range(1, RULES + 1)
    ]


def test_a_new_run_begins_under_todays_rules() -> None:
    first = handle(RunState(), StartRun(RUN, PLAN, Brief("brief")), NOW)
    assert first.events[0] == started(RULES)
    assert first.state.rules == RULES


def test_a_start_without_rules_is_of_the_first() -> None:
    assert msgspec.json.decode(msgspec.json.encode(started(1)), type=RunStarted).rules == 1
    assert b"rules" not in msgspec.json.encode(started(1))


def test_a_run_of_unknown_rules_is_not_guessed_at() -> None:
    with pytest.raises(UnknownRules, match=f"follows rules {RULES + 1} of a later release"):
        fold([started(RULES + 1)])
    with pytest.raises(CodecError, match="follows rules 0; the first are rules 1") as refused:
        fold([started(0)])
    assert not isinstance(refused.value, UnknownRules)


@pytest.mark.parametrize("rules", range(1, RULES + 1))
def test_a_fork_follows_the_rules_of_its_parent(rules: int) -> None:
    past = recorded("parent", [("somebody", event) for event in continue_from(RunState(), started(rules), NOW).events])
    fork = begin_fork(StartRun("fork", PLAN, Brief("brief"), parent=Parent("parent", len(past))), past, NOW)
    assert isinstance(fork.events[0], RunStarted)
    assert (fork.events[0].rules, fork.state.rules) == (rules, rules)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_if_follows_the_rules_of_the_run(path: Path) -> None:
    """Imagined under its own plan, what was steered by nobody goes as it went."""
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        events = events_of(line)
        names = {said["name"] for said in line["said"]}
        if any(name.startswith("run.") for name in names):
            continue
        found = decide_again(recorded("r", [("somebody", event) for event in events]), fold(events).plan)
        assert found.imagined.outcome in (found.recorded.outcome, None), line["plan"]
