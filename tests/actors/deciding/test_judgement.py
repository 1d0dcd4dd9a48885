"""What critics say, joined to one judgement, and what conditions make of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from redraft.actors.deciding.declared import judgement_of
from redraft.actors.deciding.facts import Facts, Verdict, describe, holds, reach, verdict
from redraft.actors.deciding.judgement import Judgement, join, merge
from redraft.events.messages.conditions import (
    Condition,
    approved,
    cost,
    elapsed,
    errors,
    oscillating,
    outputs,
    plateau,
    score,
    tokens,
)
from redraft.events.messages.content import Critique
from redraft.events.messages.plan import Combine

FACTS = Facts(
    judgement=Judgement(0.9, 2, None, (7,)),
    sha256="now",
    outputs=3,
    elapsed=60.0,
    tokens=500,
    cost=0.25,
    peaks=(0.5, 0.8, 0.9, 0.9),
    seen=("a", "b", "c", "d"),
)


def judged(score: float, approved: bool | None = None, gate: str = "", version: int = 1, errors: int = 0) -> Judgement:
    return Judgement(score, errors, approved, (version,), gate)  # type: ignore[arg-type]


def seen(**values: object) -> Facts:
    """The facts, with a judgement that has these values."""
    return replace(FACTS, judgement=replace(FACTS.judgement, **values))


@pytest.mark.parametrize("said", [True, False, None])
def test_a_critique_is_a_judgement_with_its_score_its_errors_its_verdict_and_its_version(said: bool | None):
    critique = Critique(0.4, errors=("one", "two"), approved=said)
    assert judgement_of(5, critique) == Judgement(0.4, 2, said, (5,), "")


@pytest.mark.parametrize(
    ("critique", "passed"),
    [
        (Critique(0.2, errors=("one",), approved=True), True),
        (Critique(1.0), True),
        (Critique(0.99), False),
        (Critique(1.0, errors=("one",)), False),
        (Critique(1.0, approved=False), False),
    ],
)
def test_a_gate_is_passed_by_a_yes_or_by_all_that_can_be_had_and_else_it_says_no(critique: Critique, passed: bool):
    score, count = critique.score, len(critique.errors)
    expected = Judgement(score, count, critique.approved if passed else False, (5,), "passed" if passed else "failed")
    assert judgement_of(5, critique, gate=True) == expected


@pytest.mark.parametrize("gate", ["", "passed", "failed"])
def test_what_one_critic_says_stands_as_it_is(gate: str):
    alone = judged(0.3, gate=gate)
    assert join([alone], "veto", (0.0,)) is alone


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ((True, True), True),
        ((True, None), None),
        ((None, None), None),
        ((True, False), False),
        ((None, False), False),
    ],
)
def test_a_draft_is_approved_when_all_approve_and_refused_when_one_refuses(
    verdicts: tuple[bool | None, ...], expected: bool | None
):
    said = [judged(0.5, each, version=n, errors=n) for n, each in enumerate(verdicts, 1)]
    assert join(said) == Judgement(0.5, 3, expected, (1, 2))


@pytest.mark.parametrize(
    ("combine", "weights", "expected"),
    [
        ("min", (), 0.1),
        ("median", (), 0.3),
        ("mean", (), 0.4),
        ("weights", (1.0, 0.0, 3.0), 0.675),
        ("weights", (0.25, 0.0, 0.25), 0.55),
        ("weights", (0.0, 0.0, 0.0), 0.1),
        ("veto", (), 0.4),
    ],
)
def test_scores_are_joined_as_the_panel_says(combine: Combine, weights: tuple[float, ...], expected: float):
    scores = (0.3, 0.1, 0.8)
    assert join([judged(each) for each in scores], combine, weights).score == pytest.approx(expected)


def test_the_lowest_score_counts_where_nothing_is_said():
    assert join([judged(0.3), judged(0.1)]).score == 0.1


@pytest.mark.parametrize(("combine", "expected"), [("veto", 0.0), ("mean", 0.5)])
def test_a_veto_takes_all_of_the_score(combine: Combine, expected: float):
    assert join([judged(0.8, True), judged(0.2, False)], combine) == Judgement(expected, 0, False, (1, 1))


def test_where_a_gate_failed_the_lowest_of_those_that_failed_counts_alone():
    told = [
        judged(0.9, True, version=1, errors=1),
        judged(0.5, None, "failed", version=2, errors=2),
        judged(0.0, True, "passed", version=3, errors=4),
        judged(0.3, True, "failed", version=4, errors=8),
    ]
    assert join(told, "mean", (1, 1, 1, 1)) == Judgement(0.3, 10, False, (1, 2, 3, 4), "failed")


def test_one_failed_gate_says_no_though_it_had_said_yes():
    told = [judged(0.9, True, version=1), judged(0.5, True, "failed", version=2)]
    assert join(told) == Judgement(0.5, 0, False, (1, 2), "failed")


def test_gates_that_passed_count_only_where_nobody_else_spoke():
    told = [
        judged(0.0, None, "passed", version=1, errors=1),
        judged(0.4, True, version=2, errors=2),
        judged(0.8, True, version=3, errors=4),
    ]
    assert join(told, "weights", (5.0, 1.0, 3.0)) == Judgement(pytest.approx(0.7), 6, True, (1, 2, 3), "")
    assert join(told, "mean").score == pytest.approx(0.6)


def test_gates_that_passed_are_joined_when_they_are_alone():
    told = [judged(1.0, None, "passed", version=1), judged(0.5, True, "passed", version=2)]
    assert join(told, "mean") == Judgement(0.75, 0, None, (1, 2), "passed")


STRICT = Critique(0.2, ("s1",), ("w1",), ("g1", "g2"), ("e1",), True, "strict")
KIND = Critique(0.6, ("s2", "s3"), ("w2",), ("g3",), ("e2",), True, "kind")


def test_a_refiner_meets_the_words_of_all_critics_as_one_critique():
    lines = (("s1", "s2", "s3"), ("w1", "w2"), ("g1", "g2", "g3"), ("e1", "e2"))
    assert merge([STRICT, KIND], 0.5) == Critique(0.5, *lines, True, "strict, kind")
    assert merge([KIND, STRICT], None) == Critique(
        0.2, ("s2", "s3", "s1"), ("w2", "w1"), ("g3", "g1", "g2"), ("e2", "e1"), True, "kind, strict"
    )


@pytest.mark.parametrize(("said", "expected"), [(True, True), (None, None), (False, False)])
def test_the_one_critique_approves_when_all_do_and_refuses_when_one_does(said: bool | None, expected: bool | None):
    merged = merge([replace(STRICT, approved=said), KIND], 0.5)
    assert merged is not None
    assert merged.approved is expected


def test_there_is_nothing_to_merge_of_one_critique_or_of_none():
    assert merge([STRICT], 0.5) is STRICT
    assert merge([], 0.5) is None


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        (score >= 0.9, True),
        (score >= 0.91, False),
        (score > 0.9, False),
        (score > 0.89, True),
        (score <= 0.9, True),
        (score <= 0.89, False),
        (score < 0.9, False),
        (score < 0.91, True),
        (errors == 2, True),
        (errors == 1, False),
        (outputs == 3, True),
        (elapsed == 60, True),
        (tokens == 500, True),
        (cost == 0.25, True),
        (approved, False),
        ((score >= 0.9) & (errors == 2), True),
        ((score >= 0.9) & (errors == 1), False),
        ((score >= 0.95) | (errors == 2), True),
        ((score >= 0.95) | (errors == 1), False),
        (~(score >= 0.95), True),
        (~(score >= 0.9), False),
        (~(elapsed > 3600), True),
        (~(elapsed > 10), False),
    ],
)
def test_a_condition_holds_for_what_was_measured(condition: Condition, met: bool):
    assert holds(condition, FACTS, limits=True) is met


@pytest.mark.parametrize(("said", "met"), [(True, True), (None, False), (False, False)])
def test_a_draft_is_approved_when_its_critics_said_so(said: bool | None, met: bool):
    assert holds(approved, seen(approved=said), limits=True) is met


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        (plateau(0.2, over=2), True),
        (plateau(0.1, over=3), False),
        (plateau(0.41, over=3), True),
        (plateau(0.4, over=3), False),
        (plateau(1.0, over=4), False),
        (plateau(0.0, over=1), False),
        (plateau(0.01, over=1), True),
    ],
)
def test_scores_are_flat_when_the_best_rose_by_less_over_so_many_drafts(condition: Condition, met: bool):
    peaks = (0.5, 0.75, 0.90, 0.90)
    assert holds(condition, replace(FACTS, peaks=peaks), limits=True) is met


@pytest.mark.parametrize(("sha256", "met"), [("d", True), ("c", True), ("b", False), ("now", False)])
def test_a_draft_comes_again_when_it_is_among_the_last_so_many(sha256: str, met: bool):
    assert holds(oscillating(2), replace(FACTS, sha256=sha256), limits=True) is met


LIMITS: list[tuple[Condition, str, str]] = [
    (tokens > 400, "over_budget", "tokens 500 > 400"),
    (cost >= 0.2, "over_budget", "cost 0.25 >= 0.2"),
    (elapsed >= 60, "timed_out", "elapsed 60 >= 60"),
    (plateau(0.2, over=2), "plateaued", "the best score rose by less than 0.2 over 2 judged drafts"),
    (oscillating(2), "oscillating", "the draft is one that was judged before"),
]


@pytest.mark.parametrize(("limit", "outcome", "reason"), LIMITS, ids=[each[1] for each in LIMITS])
def test_a_limit_ends_a_loop_without_accepting_the_draft(limit: Condition, outcome: str, reason: str):
    facts = replace(FACTS, sha256="c")
    assert holds(limit, facts, limits=True)
    assert not holds(limit, facts, limits=False)
    for condition in (limit, limit | (score >= 1.0), limit & (score >= 0.5), limit & ~(score >= 1.0)):
        assert verdict(condition, facts, own_word=False) == Verdict(outcome, reason)  # type: ignore[arg-type]


def test_of_several_limits_that_are_reached_the_costliest_is_named():
    facts = replace(FACTS, sha256="c")
    left = [each for each, _, _ in reversed(LIMITS)]
    named = []
    while left:
        condition = left[0]
        for each in left[1:]:
            condition = condition | each
        met = verdict(condition, facts, own_word=False)
        assert met is not None
        named.append(met.outcome)
        left = [each for each, outcome, _ in reversed(LIMITS) if outcome not in named]
    assert named == ["over_budget", "timed_out", "oscillating", "plateaued"]


def test_the_limit_that_is_reached_is_named_and_not_one_that_is_not():
    condition = (tokens > 1000) | (cost > 0.2) | (elapsed > 3600)
    assert verdict(condition, FACTS, own_word=False) == Verdict("over_budget", "cost 0.25 > 0.2")


def test_a_draft_for_which_the_condition_holds_is_accepted_and_the_facts_are_named():
    condition = (score >= 0.9) & (errors <= 2) & ~(outputs > 5) | approved | (tokens > 1000)
    assert verdict(condition, FACTS, own_word=False) == Verdict(
        "accepted", "the condition holds: score 0.90 >= 0.9, errors 2 <= 2, not outputs 3 > 5"
    )


def test_a_loop_goes_on_while_its_condition_does_not_hold():
    assert verdict(score >= 0.95, FACTS, own_word=False) is None
    assert verdict(score >= 0.95, seen(approved=True), own_word=False) is None
    assert verdict(score >= 0.95, FACTS, own_word=True) is None


@pytest.mark.parametrize(("said", "ends"), [(True, True), (None, False), (False, False)])
def test_a_critics_own_yes_ends_the_loop_whatever_the_condition_says(said: bool | None, ends: bool):
    expected = Verdict("accepted", "the critic approved the draft (score 0.90)") if ends else None
    assert verdict(score >= 0.95, seen(approved=said), own_word=True) == expected


def test_a_critics_no_forbids_acceptance_but_not_the_end_by_a_limit():
    refused = seen(approved=False)
    assert verdict(score >= 0.5, refused, own_word=True) is None
    assert verdict((score >= 0.5) | (tokens > 400), refused, own_word=True) == Verdict(
        "over_budget", "tokens 500 > 400"
    )


def test_what_did_not_happen_is_told_where_that_is_why_the_condition_holds():
    facts = replace(seen(score=0.93456), sha256="new")
    assert describe(~approved & ~oscillating(9) & ~plateau(0.001, over=2), facts) == (
        "not approved, it is not so that the draft is one that was judged before, "
        "it is not so that the best score rose by less than 0.001 over 2 judged drafts"
    )


def test_the_facts_that_a_condition_speaks_of_are_told_where_they_hold():
    condition = (score >= 0.9) & (errors == 0) | approved | (cost < 0.5) | ~plateau(0.2, over=2) | oscillating(9)
    facts = replace(seen(score=0.93456, approved=True), sha256="a")
    assert describe(condition, facts) == (
        "score 0.935 >= 0.9, approved, cost 0.25 < 0.5, the draft is one that was judged before"
    )


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (score >= 0.9, (1, 0)),
        (plateau(0.1, over=3) | (score >= 0.9), (4, 0)),
        (oscillating(5) & approved, (1, 5)),
        (plateau(over=2) | plateau(over=6) | ~(oscillating(3) & oscillating(9)), (7, 9)),
    ],
)
def test_a_loop_remembers_as_much_as_its_condition_looks_back_on(condition: Condition, expected: tuple[int, int]):
    assert reach(condition) == expected
