"""Damage planted in good records: the checker finds each kind, at the right event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, TypeVar

import msgspec
import pytest
from msgspec.structs import replace
from tests.projections.random_runs import as_recorded
from tests.properties.test_deciding_properties import NOW, Run
from tests.streams import article, stored

from redraft.events.messages.codec import GENESIS
from redraft.events.messages.commands import ApproveDraft, ChangeLimits, GuideRun
from redraft.events.messages.conditions import approved, score
from redraft.events.messages.content import Critique, DraftRef, digest, new_draft
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    DomainEvent,
    DraftApproved,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    IterationStarted,
    LimitsChanged,
    LoopEnded,
    RunEnded,
    RunErased,
    RunGuided,
    RunQuarantined,
    RunStarted,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import RULES, Approve, Budget, Parallel, Plan, Repeat, Retry, Step
from redraft.events.messages.usage import Usage
from redraft.projections.record_check import Checked, Ids, Row, check_events, check_rows

T = TypeVar("T")
Events = list[DomainEvent]
WRITE, SAVE = Step("generator", "write", "write"), Step("publisher", "save", "save")
JUDGE, IMPROVE = Step("critic", "judge", "judge", retry=Retry(2, 0.0)), Step("refiner", "improve", "improve")
PLAN: Final = Plan("p", (WRITE, Repeat("L", score >= 0.9, 3, (JUDGE, IMPROVE)), SAVE))
PANEL: Final = Plan(
    "p",
    (
        WRITE,
        Repeat("L", score >= 0.9, 2, (Parallel("both", (JUDGE, Step("critic", "x", "x")), wait="first"), IMPROVE)),
        SAVE,
    ),
)
ASKING: Final = Plan("p", (WRITE, JUDGE, Approve("ask", ("ann", "ben"), 2), SAVE))


def driven(plan: Plan, scores: Sequence[float]) -> Events:
    """A whole run of this plan, with these scores in turn; people approve."""
    run, left = Run(plan), list(scores)
    for _ in range(200):
        if run.state.status != "running":
            break
        if run.state.approval:
            for by in ("ann", "ben"):
                run.send(ApproveDraft("r", run.state.approval.request.draft, by=by) if run.state.approval else said())
            continue
        path, asked = next(iter(run.state.open.items()))
        value = left.pop(0) if asked.step.role == "critic" else 0.0
        run.answer(path, value=value, text=f"text {len(run.said)}")
    return list(run.events)


def said() -> GuideRun:
    return GuideRun("r", "be brief", by="ann")


def kinds(events: Events, kind: type[T]) -> list[tuple[int, T]]:
    return [(number, event) for number, event in enumerate(events) if isinstance(event, kind)]


def nth(events: Events, kind: type[T], number: int = 0) -> tuple[int, T]:
    return kinds(events, kind)[number]


def changed(events: Events, kind: type[msgspec.Struct], number: int = 0, **fields: object) -> Events:
    at, event = nth(events, kind, number)
    return [*events[:at], replace(event, **fields), *events[at + 1 :]]  # type: ignore[list-item]


def put(events: Events, at: int, *more: DomainEvent) -> Events:
    return [*events[:at], *more, *(moved(event, at, len(more)) for event in events[at:])]


def without(events: Events, kind: type[object], number: int = 0) -> Events:
    at, _ = nth(events, kind, number)
    return [*events[:at], *(moved(event, at, -1) for event in events[at + 1 :])]


def moved(event: DomainEvent, at: int, by: int) -> DomainEvent:
    """The event as it names others, now that those behind this place have other versions."""
    if not isinstance(event, StepRequested):
        return event
    return replace(event, critiques=tuple(each + by if each > at else each for each in event.critiques))


def recorded(events: Events) -> tuple[Recorded, ...]:
    return as_recorded(events, [NOW + timedelta(seconds=number) for number in range(len(events))])


def codes(events: Events) -> set[str]:
    return {finding.code for finding in check_events(recorded(events))}


GOOD: Final = driven(PLAN, [0.5, 0.8, 0.6, 0.7])
ACCEPTED: Final = driven(PLAN, [0.5, 0.95])
FIRST: Final = nth(GOOD, DraftGenerated)[1].draft.ref
OTHER: Final = DraftRef(7, digest("another"))


def test_the_good_records_are_good() -> None:
    for events in (GOOD, ACCEPTED, driven(PANEL, [0.5, 0.95]), driven(ASKING, [0.5])):
        assert isinstance(events[-1], RunEnded)
        assert codes(events) == set()


def after(kind: type[object], *more: DomainEvent, number: int = 0) -> Callable[[Events], Events]:
    return lambda events: put(events, nth(events, kind, number)[0] + 1, *more)


def _answered_again(events: Events) -> Events:
    at, event = nth(events, DraftCritiqued)
    return put(events, at + 1, event)


def _swapped(events: Events) -> Events:
    at, event = nth(events, DraftCritiqued)
    return [*events[: at - 1], event, events[at - 1], *events[at + 1 :]]


def _with_one_iteration_more(events: Events) -> Events:
    at, _ = nth(events, LoopEnded)
    return put(events, at, IterationStarted("L", 4))


def _refined_unasked(events: Events) -> Events:
    at, _ = nth(events, LoopEnded)
    before = nth(events, DraftRefined, -1)[1].draft.ref
    return put(events, at, DraftRefined("L[4]/improve", 1, before, new_draft(5, "nobody asked")))


def _asked_after_it_held(events: Events) -> Events:
    at, ended = nth(events, LoopEnded)
    asked = nth(events, StepRequested, 2)[1]
    version = nth(events, DraftCritiqued, -1)[0] + 1
    more = replace(asked, path="L[2]/improve", draft=ended.draft, critiques=(version,), score=ended.score)
    return put(events, at, more)


def _ended_though_it_did_not_hold(events: Events) -> Events:
    at, critique = nth(events, DraftCritiqued)
    ended = LoopEnded("L", "accepted", "it was good", 1, critique.draft, critique.critique.score)
    return [*events[: at + 1], ended]


def _published_another(events: Events) -> Events:
    ends = changed(events, StepRequested, -1, draft=FIRST)
    return changed(ends, DraftPublished, draft=FIRST)


def _beyond_the_retries(events: Events) -> Events:
    at, event = nth(events, DraftCritiqued)
    asked = nth(events, StepRequested, 1)[1]
    failed = StepFailed(event.path, 1, "error", "broke", NOW)
    tries: Events = []
    for attempt in (1, 2):
        tries += [replace(failed, attempt=attempt), replace(asked, attempt=attempt + 1)]
    return [*events[:at], *tries, replace(event, attempt=3), *events[at + 1 :]]


DAMAGE: Final[dict[str, tuple[Events, Callable[[Events], Events], set[str]]]] = {
    "an answer is dropped": (GOOD, lambda e: without(e, DraftCritiqued), {"order", "critiques", "step"}),
    "a request is dropped": (GOOD, lambda e: without(e, StepRequested, 1), {"unasked"}),
    "the start of an iteration is dropped": (GOOD, lambda e: without(e, IterationStarted, 1), {"iteration"}),
    "an answer counts twice": (GOOD, _answered_again, {"answer-twice"}),
    "an answer comes before its request": (GOOD, _swapped, {"unasked"}),
    "an answer to what was never asked": (GOOD, _refined_unasked, {"unasked"}),
    "a request is made twice": (GOOD, lambda e: put(e, 2, e[1]), {"asked-twice"}),
    "another score leaves the loop": (GOOD, lambda e: changed(e, LoopEnded, score=0.99), {"score"}),
    "another draft leaves the loop": (GOOD, lambda e: changed(e, LoopEnded, draft=FIRST), {"kept"}),
    "another outcome of the loop": (GOOD, lambda e: changed(e, LoopEnded, outcome="plateaued"), {"loop"}),
    "accepted though nothing held": (GOOD, lambda e: changed(e, LoopEnded, outcome="accepted"), {"loop"}),
    "ended though nothing held": (GOOD, _ended_though_it_did_not_hold, {"loop"}),
    "another number of iterations": (GOOD, lambda e: changed(e, LoopEnded, iterations=2), {"iteration"}),
    "another draft is published": (GOOD, _published_another, {"draft"}),
    "an answer about another draft": (GOOD, lambda e: changed(e, DraftPublished, draft=FIRST), {"draft"}),
    "a critique in another critic's name": (
        GOOD,
        lambda e: changed(e, DraftCritiqued, critique=replace(nth(e, DraftCritiqued)[1].critique, critic="mallory")),
        {"role"},
    ),
    "a draft that never was": (GOOD, lambda e: changed(e, DraftPublished, draft=OTHER), {"draft-unknown"}),
    "an iteration too many": (GOOD, _with_one_iteration_more, {"iteration"}),
    "asked after the condition held": (ACCEPTED, _asked_after_it_held, {"step", "loop"}),
    "a draft's number": (GOOD, lambda e: changed(e, DraftRefined, draft=new_draft(9, "x")), {"draft-number"}),
    "a draft's hash": (
        GOOD,
        lambda e: changed(e, DraftGenerated, draft=replace(nth(e, DraftGenerated)[1].draft, text="x")),
        {"draft-hash"},
    ),
    "a refiner is told another score": (GOOD, lambda e: changed(e, StepRequested, 2, score=0.1), {"score"}),
    "a refiner is told other critiques": (GOOD, lambda e: changed(e, StepRequested, 2, critiques=()), {"critiques"}),
    "critiques that are none": (GOOD, lambda e: changed(e, StepRequested, 2, critiques=(1,)), {"critiques"}),
    "another actor": (GOOD, lambda e: changed(e, StepRequested, 2, actor="mallory"), {"step"}),
    "tried more often than the plan says": (GOOD, _beyond_the_retries, {"attempt"}),
    "an attempt after none failed": (GOOD, lambda e: changed(e, StepRequested, 1, attempt=2), {"attempt"}),
    "the run ends with another draft": (GOOD, lambda e: changed(e, RunEnded, draft=FIRST), {"kept"}),
    "the run ends with another score": (GOOD, lambda e: changed(e, RunEnded, score=0.99), {"score"}),
    "the run ends otherwise": (GOOD, lambda e: changed(e, RunEnded, outcome="accepted"), {"end"}),
    "the run counts other iterations": (GOOD, lambda e: changed(e, RunEnded, iterations=4), {"iteration"}),
    "something after the end": (GOOD, lambda e: [*e, RunGuided("more", "ann")], {"after-end"}),
    "a second end": (GOOD, lambda e: [*e, e[-1]], {"after-end"}),
    "a second beginning": (GOOD, lambda e: put(e, 3, e[0]), {"beginning"}),
    "no beginning": (GOOD, lambda e: e[1:], {"beginning"}),
    "a word that was heard": (
        GOOD,
        lambda e: put(e, 2, RunGuided("more", "ann", key="k"), RunGuided("more", "ann", key="k")),
        {"word-twice"},
    ),
    "advice that is withheld": (GOOD, lambda e: put(e, 2, RunGuided("be brief", "ann")), {"advice"}),
    "a late verdict that was not late": (
        GOOD,
        after(DraftCritiqued, VerdictLate("L[1]/judge", 1, FIRST, Critique(1.0))),
        {"answer-twice"},
    ),
    "a late verdict that counts": (
        driven(PANEL, [0.5, 0.95]),
        after(DraftCritiqued, DraftCritiqued("L[1]/both/x", 1, FIRST, Critique(1.0, critic="x"))),
        {"unasked", "order", "step"},
    ),
    "approved by too few": (
        driven(ASKING, [0.5]),
        lambda e: without(changed(e, DraftApproved, granted=True), DraftApproved, 1),
        {"approval"},
    ),
    "approved by one who was not asked": (
        driven(ASKING, [0.5]),
        lambda e: changed(e, DraftApproved, by="eve"),
        {"approval"},
    ),
    "approved by one person twice": (
        driven(ASKING, [0.5]),
        lambda e: changed(e, DraftApproved, 1, by="ann"),
        {"approval"},
    ),
    "published before people were asked": (
        driven(ASKING, [0.5]),
        lambda e: without(without(without(e, DraftApproved), DraftApproved), ApprovalRequested),
        {"approval"},
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found(kind: str) -> None:
    good, damage, expected = DAMAGE[kind]
    assert codes(list(good)) == set()
    assert codes(damage(list(good))) & expected


def test_more_is_asked_for_than_the_budget_allows() -> None:
    events = driven(replace(PLAN, budget=Budget(tokens=100)), [0.5, 0.95])
    assert codes(events) == set()
    assert "budget" in codes(changed(events, DraftGenerated, usage=Usage(100)))


def test_other_limits_count_from_when_they_were_said() -> None:
    run = Run(PLAN)
    run.answer("write", value=0, text="a")
    run.send(ChangeLimits("r", "L", approved, 1, by="ann"))
    run.answer("L[1]/judge", value=0.95, text="")
    judged = list(run.events)
    assert codes(judged) == set()
    assert {"step", "loop"} & codes(without(judged, LimitsChanged))


def rows(run: str = "r") -> list[Row]:
    told = [(event.actor, event.data) for event in article()]
    return [Row(*raw) for raw in stored(run, told)]


def found(kept: Sequence[Row], run: str = "r") -> list[tuple[str, int]]:
    return [(each.code, each.version) for each in check_rows(run, kept).findings]


def test_a_version_that_is_missing() -> None:
    kept = rows()
    assert found([*kept[:2], *kept[3:]])[0] == ("gap", 4)


def test_a_version_that_is_there_twice() -> None:
    kept = rows()
    assert ("double", 3) in found([*kept[:3], *kept[2:]])


def test_an_event_that_builds_on_another() -> None:
    kept = rows()
    other = rows("another")
    assert ("previous", 5) in found([*kept[:4], other[4], *kept[5:]])


def test_an_event_of_a_later_release_and_one_that_nobody_can_read() -> None:
    kept = rows()
    assert found([*kept[:4], replace(kept[4], name="draft.sung.v1"), *kept[5:]]) == [("later-release", 5)]
    assert found([*kept[:4], replace(kept[4], state=b'{"hash":"'), *kept[5:]]) == [("unreadable", 5)]


def test_a_run_under_rules_of_a_later_release() -> None:
    kept = rows()
    later = kept[0].state.replace(b'"data":{', b'"data":{"rules":%d,' % (RULES + 1))
    assert found([replace(kept[0], state=later), *kept[1:]]) == [("later-release", 1)]


def test_an_id_that_two_events_have() -> None:
    events = [*recorded(GOOD)]
    events[4] = replace(events[4], id=events[2].id)
    assert [(each.code, each.version) for each in check_events(events)] == [("id-twice", 5)]


def test_an_id_that_events_of_two_runs_have() -> None:
    with Ids() as ids:
        assert ids.add(Checked("a", (), ids=(("x", 1, 1), ("y", 2, 2)))) == []
        assert [each.version for each in ids.add(Checked("b", (), ids=(("z", 1, 3), ("y", 2, 4))))] == [2]


def test_a_run_that_was_set_aside_is_told_so() -> None:
    aside = replace(recorded(GOOD)[-1], version=len(GOOD), name="run.quarantined.v1")
    started = [event for event in recorded(GOOD) if isinstance(event.data, RunStarted)]
    assert started[0].previous == GENESIS
    assert check_events([*recorded(GOOD)[:-1], aside]) == ()


def test_a_run_may_be_set_aside_once_it_has_ended_and_nothing_but_its_erasure_follows() -> None:
    aside, erased = RunQuarantined("ann", "it looks odd"), RunErased("ann")
    assert codes([*GOOD, aside]) == set()
    assert codes([*GOOD, aside, erased]) == set()
    assert codes([*GOOD, aside, aside]) == {"after-end"}
    assert codes([*GOOD, erased, aside]) == set()
    assert "after-end" in codes([*GOOD, aside, RunGuided("more", "ann")])
