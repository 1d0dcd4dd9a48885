"""Faults that other systems are known for, each a test that would fail if Redraft had it."""

from __future__ import annotations

import msgspec
import pytest
from tests.given import NOON, given

from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.state import RunState
from redraft.events.errors import CodecError
from redraft.events.messages.codec import decode_message
from redraft.events.messages.commands import Critiqued, Generated, Published, Refined, StartRun
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Brief, Critique, DraftRef, Receipt, digest
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftCritiqued,
    DraftPublished,
    DraftRefined,
    IterationStarted,
    LoopEnded,
    RunEnded,
    StepRequested,
)
from redraft.events.messages.plan import Plan, Repeat, Step

JUDGE = Step("critic", "judge", "judge")
IMPROVE = Step("refiner", "improve", "improve")
WRITE = Step("generator", "write", "write")
SAVE = Step("publisher", "save", "save")


def plan_of(*body: Step | Repeat, most: int = 3) -> Plan:
    return Plan("p", (WRITE, Repeat("Refinement", score >= 0.9, most, body), SAVE))


def ref(version: int, text: str) -> DraftRef:
    return DraftRef(version, digest(text))


def events_of(plan: Plan, scores: list[float]) -> tuple[DomainEvent, ...]:
    """A whole run: each refinement writes a new text, each critique takes the next of these scores."""
    state, events, left = RunState(), [], list(scores)
    decision = handle(state, StartRun("r", plan, Brief("b")), NOON)
    while True:
        state = decision.state
        events += decision.events
        if state.status == "ended":
            return tuple(events)
        path, asked = next(iter(state.open.items()))
        draft = asked.draft or ref(0, "")
        match asked.step.role:
            case "generator":
                message = Generated("r", path, 1, f"text {len(events)}")
            case "critic":
                message = Critiqued("r", path, 1, draft, Critique(left.pop(0)))
            case "refiner":
                message = Refined("r", path, 1, f"text {len(events)}")
            case "publisher":
                message = Published("r", path, 1, draft, Receipt("here"))
        decision = handle(state, message, NOON)


def of_kind(events: tuple[DomainEvent, ...], kind: type) -> list:
    return [event for event in events if isinstance(event, kind)]


def test_exit_is_not_tested_after_the_refiner_with_the_score_of_the_draft_before():
    """A passing critique leaves the loop before the refiner runs, and what passed is what is published."""
    events = events_of(plan_of(JUDGE, IMPROVE), [0.5, 0.95])
    assert len(of_kind(events, DraftRefined)) == 1
    passed = of_kind(events, DraftCritiqued)[-1]
    assert passed.critique.score == 0.95
    assert of_kind(events, DraftPublished)[0].draft == passed.draft
    after = events[events.index(passed) + 1]
    assert isinstance(after, LoopEnded)


def test_a_refinement_that_is_good_is_found_good_by_a_fresh_critique_not_by_an_old_one():
    """The last refinement is judged by a closing critique before the loop ends, and counts when it passes."""
    events = events_of(plan_of(JUDGE, IMPROVE, most=1), [0.5, 0.95])
    end = of_kind(events, RunEnded)[0]
    assert (end.outcome, end.score, end.iterations) == ("accepted", 0.95, 1)
    assert of_kind(events, DraftPublished)[0].draft.version == 2


def test_a_loop_body_does_not_run_max_plus_one_times():
    events = events_of(plan_of(JUDGE, IMPROVE, most=3), [0.5, 0.5, 0.5, 0.5])
    assert len(of_kind(events, IterationStarted)) == 3
    assert len(of_kind(events, DraftRefined)) == 3
    assert of_kind(events, RunEnded)[0].outcome == "exhausted"


def test_an_inner_counter_is_reset_each_time_its_loop_is_entered():
    inner = Repeat("Inner", score >= 0.99, 2, (JUDGE, IMPROVE))
    events = events_of(plan_of(inner, JUDGE, most=3), [0.5] * 12)
    entered = [(event.path, event.iteration) for event in of_kind(events, IterationStarted) if "Inner" in event.path]
    assert entered == [(f"Refinement[{outer}]/Inner", n) for outer in (1, 2, 3) for n in (1, 2)]


def test_history_does_not_double_when_an_outcome_comes_twice():
    started = handle(RunState(), StartRun("r", plan_of(JUDGE, IMPROVE), Brief("b")), NOON).events
    written = given(*started).when(Generated("r", "write", 1, "one")).events
    critique = Critiqued("r", "Refinement[1]/judge", 1, ref(1, "one"), Critique(0.5))
    once = given(*started, *written).when(critique)
    twice = given(*started, *written).when(critique, critique)
    assert of_kind(once.events, DraftCritiqued)
    assert twice.then(*once.events).state == once.state


@pytest.mark.parametrize("word", ['"Not approved"', '"APPROVED"', '"true"', "1", '"False"'])
def test_not_approved_is_not_read_as_approved(word: str):
    """A verdict is True or False and nothing that must be read: words are refused where they come in."""
    body = (
        b'{"run":"r","path":"p","attempt":1,"draft":{"version":1,"sha256":"x"},"critique":{"score":0.1,"approved":%b}}'
    )
    with pytest.raises(CodecError, match="approved"):
        decode_message("outcome.critiqued.v1", body % word.encode())
    right = decode_message("outcome.critiqued.v1", body % b"false")
    assert isinstance(right, Critiqued)
    assert right.critique.approved is False


def test_a_critic_that_says_not_approved_is_never_overruled_by_its_score():
    started = handle(RunState(), StartRun("r", plan_of(JUDGE, IMPROVE), Brief("b")), NOON).events
    written = given(*started).when(Generated("r", "write", 1, "one")).events
    said = Critique(0.99, approved=False, strengths=("APPROVED",))
    brought = given(*started, *written).when(Critiqued("r", "Refinement[1]/judge", 1, ref(1, "one"), said)).events
    assert isinstance(brought[-1], StepRequested)
    assert brought[-1].role == "refiner"


def test_a_verdict_of_approved_ends_the_loop_below_the_threshold():
    started = handle(RunState(), StartRun("r", plan_of(JUDGE, IMPROVE), Brief("b")), NOON).events
    written = given(*started).when(Generated("r", "write", 1, "one")).events
    said = Critique(0.2, approved=True)
    brought = given(*started, *written).when(Critiqued("r", "Refinement[1]/judge", 1, ref(1, "one"), said))
    ended = of_kind(brought.events, LoopEnded)[0]
    assert (ended.outcome, ended.draft) == ("accepted", ref(1, "one"))


def test_a_later_worse_draft_is_not_published():
    events = events_of(plan_of(JUDGE, IMPROVE, most=2), [0.3, 0.8, 0.4])
    assert of_kind(events, DraftPublished)[0].draft.version == 2
    assert of_kind(events, RunEnded)[0].score == 0.8


def test_a_refinement_after_a_fall_starts_from_the_best_draft_again():
    events = events_of(plan_of(JUDGE, IMPROVE, most=3), [0.8, 0.4, 0.5, 0.5])
    assert [event.before.version for event in of_kind(events, DraftRefined)] == [1, 1, 1]
    gentle = events_of(plan_of(JUDGE, IMPROVE, most=3), [0.8, 0.75, 0.72, 0.71])
    assert [event.before.version for event in of_kind(gentle, DraftRefined)] == [1, 2, 3]


def test_unknown_fields_of_a_plan_are_refused():
    with pytest.raises(CodecError, match="surprise"):
        decode_message("run.start.v1", b'{"run":"r","plan":{"name":"p","steps":[],"surprise":1},"brief":{"text":"x"}}')
    assert msgspec.json.encode(Brief("x")) == b'{"text":"x"}'
