"""The whole story of a run: what led to what, why it went on, what was said and changed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.streams import START, Told, article, article_told, book, recorded

from redraft.actors.conditions.reading import print_until
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Brief, Critique, DraftRef, Mark, new_draft
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftEdited,
    DraftRefined,
    EventRef,
    IterationStarted,
    LimitsChanged,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Approve, Parallel, Plan, Repeat, Role, Step
from redraft.events.messages.usage import Usage
from redraft.projections.record_check import unmet_drafts
from redraft.projections.run_views.narrative import MAX_SHOWN, NarrativeEntry, narrate

RUNS = (article(), book())
UNTIL = "(score >= 0.9 and errors == 0) or plateau(gain=0.01, over=2)"


def entries(events: Sequence[Recorded]) -> list[NarrativeEntry]:
    return list(narrate(events, print_until, unmet_drafts(events)))


def step(role: Role, name: str) -> Step:
    return Step(role, name, name)


def details(*told: Told) -> list[tuple[str, ...]]:
    return [entry.details for entry in entries(recorded("r", told))]


def test_a_run_is_told_with_its_brief_and_its_limits():
    assert entries(article())[0].details == (
        "the brief: Why tides exist",
        f"Refinement goes on until {UNTIL}, for 5 iterations at most; the best draft leaves it",
    )
    assert entries(book())[0].details[1:] == (
        "Chapters goes on until outputs >= 9, for 2 iterations at most; the best draft leaves it",
        "Chapters/ChapterRefinement goes on until score >= 0.95, for 1 iteration at most; the best draft leaves it",
    )


def test_it_says_why_it_went_on_and_what_the_refiner_is_told():
    told = entries(article())
    assert told[6].details == (
        f"because draft 1, scored at 0.614, did not end it: {UNTIL}",
        "it receives the critique of event 6",
    )
    assert told[8].details == ("it is one of 5 iterations at most",)
    assert told[7].details == ("5 words came, 4 went",)


def test_why_the_run_went_on_that_a_fork_repeats_is_not_told_by_the_forks_own_plan():
    events = article()
    fork = [events[0], *(msgspec.structs.replace(event, repeats=event.id) for event in events[1:8]), *events[8:]]
    told = entries(fork)
    assert told[6].details == ("it receives the critique of event 6",)
    assert told[8].details == (
        f"because draft 1, scored at 0.614, did not end it: {UNTIL}",
        "it is one of 5 iterations at most",
    )


def test_it_says_how_many_iterations_there_are_once_a_person_changed_that():
    events = [(event.actor, event.data) for event in article()]
    told = details(*events[:3], ("ann", LimitsChanged("Refinement", "ann", max_iterations=2)), *events[3:9])
    assert told[4] == ("it is one of 2 iterations at most",)
    assert told[9] == ("it is one of 2 iterations at most",)


def test_it_says_that_nobody_looks_at_a_persons_draft_where_an_iteration_begins_with_a_new_one():
    body = (Parallel("Best", (step("generator", "a"), step("generator", "b"))), step("critic", "judge"))
    plan = Plan("plan", (step("generator", "write"), Repeat("Loop", score >= 0.9, 3, body)))
    mine = new_draft(2, "mine")
    edited = ("ann", DraftEdited(mine, DraftRef(1, "0" * 64), "ann"))
    asked = [("", StepRequested(f"Loop[2]/Best/{name}", "generator", name, 1, START)) for name in "ab"]
    told = details(("", RunStarted(plan, Brief("x"), START)), edited, ("", IterationStarted("Loop", 2)), *asked)
    assert told[3] == ("nobody has looked at draft 2, which ann made: the new draft takes its place",)
    assert told[4] == ()
    judged = ("", StepRequested("Loop[1]/judge[edit1]", "critic", "judge", 1, START, mine.ref))
    assert details(("", RunStarted(plan, Brief("x"), START)), edited, judged, asked[0])[3] == ()


@pytest.mark.parametrize(
    ("role", "history", "said"),
    [
        ("critic", None, ()),
        ("critic", 0, ("it receives the history",)),
        ("critic", 2, ("it receives the history, with the texts of 2 earlier drafts at most",)),
        ("refiner", 0, ()),
        ("refiner", 1, ("it receives the history, with the texts of 1 earlier draft at most",)),
    ],
)
def test_it_says_who_is_given_the_history(role: Role, history: int | None, said: tuple[str, ...]):
    plan = Plan("plan", (Repeat("Loop", score >= 0.9, 2, (Step(role, "one", "one", history=history),)),))
    asked = StepRequested("Loop[2]/one", role, "one", 1, START, DraftRef(1, "0" * 64))
    begun = ("coordinator", RunStarted(plan, Brief("x"), START))
    assert details(begun, ("coordinator", asked))[1] == said
    again = msgspec.structs.replace(asked, reused=EventRef("earlier", 3))
    assert details(begun, ("coordinator", again))[1] == ()


def test_it_says_what_a_critic_said():
    assert entries(article())[5].details == (
        "error: Teh",
        "error: becuase",
        "weakness: careless spelling",
        "suggestion: spell it right",
        "strength: a clear subject",
    )
    many = Critique(0.5, errors=tuple(f"error {n}" for n in range(MAX_SHOWN + 3)))
    said = details(("judge", DraftCritiqued("judge", 1, DraftRef(1, "0" * 64), many, Usage(12, calls=1))))[0]
    assert said[MAX_SHOWN:] == ("and 3 more errors", "used 1 call, 12 tokens")


def test_it_says_why_a_criterion_was_scored_so_and_what_a_refiner_declined():
    marks = (Mark("truth", 0.5, reason="once a day is wrong", quote="once a day"), Mark("tone", 0.7))
    first, second = new_draft(1, "once a day"), new_draft(2, "twice a day")
    many = ("“day”: say when — it is said", *(f"thing {n} — no" for n in range(MAX_SHOWN)))
    told = details(
        ("judge", DraftCritiqued("judge", 1, first.ref, Critique(0.5, criteria=marks))),
        ("improve", DraftRefined("improve", 1, first.ref, second, declined=many)),
    )
    assert told[0] == ("truth: once a day is wrong, as in “once a day”",)
    assert told[1][0] == "declined: “day”: say when — it is said"
    assert told[1][MAX_SHOWN] == "and 1 more refusal"


def test_each_event_names_the_one_that_led_to_it():
    told = entries(article())
    assert [entry.cause for entry in told] == list(range(len(told)))


def test_what_came_when_its_time_had_come_is_led_back_to_what_set_the_time():
    """Also where it names no cause, as earlier versions recorded it."""
    events = [
        msgspec.structs.replace(event, causation="" if event.actor == "timekeeper" else event.causation)
        for event in recorded(
            "r",
            [
                ("coordinator", StepRequested("judge", "critic", "judge", 1, START)),
                ("coordinator", StepRequested("other", "critic", "other", 1, START)),
                ("timekeeper", StepFailed("judge", 1, "timeout", "no answer", START)),
                ("judge", StepFailed("other", 1, "error", "x", START)),
                ("timekeeper", StepRequested("judge", "critic", "judge", 2, START)),
            ],
        )
    ]
    told = entries(events)
    assert [entry.cause for entry in told] == [0, 1, 1, 2, 3]
    assert told[4].details == ("the wait after event 3 was over",)


@given(st.sampled_from(RUNS), st.integers(0, 40))
def test_a_prefix_tells_the_beginning_of_the_same_story(run: tuple[Recorded, ...], length: int):
    assert entries(run[:length]) == entries(run)[:length]


@pytest.mark.parametrize("evil", ["\x1b[2J", "a\r\nb", "\u202egnp.exe"])
def test_untrusted_words_cannot_steer_a_terminal(evil: str):
    told = recorded("r", article_told([f"{evil} a", f"{evil} b", f"{evil} c"], actor=evil, name=evil))
    for entry in entries(told):
        for shown in entry.details:
            assert shown.isprintable()


def test_it_says_how_a_loop_ends_and_that_a_refinement_mends_failures():
    loop = Repeat(
        *("L", score >= 0.9, 2, (Step("critic", "judge", "judge"), Step("refiner", "improve", "improve"))),
        on_exhausted="ask",
        on_plateau="fail",
        ask=Approve("editor", ("ann",)),
        on_failure="refine",
        max_failures=2,
    )
    draft = new_draft(1, "a").ref
    told = entries(
        recorded(
            "r",
            [
                ("", RunStarted(Plan("p", (Step("generator", "write", "write"), loop)), Brief("b"), START)),
                ("", StepRequested("L[1]/judge", "critic", "judge", 1, START, draft)),
                ("", StepFailed("L[1]/judge", 1, "error", "it broke")),
                ("", StepRequested("L[1]/improve", "refiner", "improve", 1, START, draft, critiques=(3,))),
            ],
        )
    )
    assert told[0].details[-1] == (
        "L goes on until score >= 0.9, for 2 iterations at most; the best draft leaves it; exhausted: ask ann, "
        "plateaued: fail; a refinement mends what a step fails on, at most 2 times"
    )
    assert told[3].details == ("it receives the error of event 3",)
