"""Conditions on what critics count: as text, in Python, and read with what the critics of a loop declare."""

from __future__ import annotations

import pytest

from redraft.actors.conditions.holding import check_reading
from redraft.actors.conditions.printing import print_condition
from redraft.actors.conditions.text import parse_condition
from redraft.events.errors import ConditionError
from redraft.events.messages.conditions import Compare, Condition, change, errors, measure
from redraft.events.messages.plan import Criterion, Step

TESTS = Step("critic", "tests", "tests", measures=("failing", "passing", "all_tests_passing"))
PROSE = Step("critic", "prose", "prose", measures=("words", "readability?"))
JUDGE = Step("critic", "judge", "judge", scale=(1, 10), criteria=(Criterion("tone"),), measures=("words",))


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (
            "failing == 0 and words >= 300 and readability >= 0.8",
            (measure.failing == 0) & (measure.words >= 300) & (measure.readability >= 0.8),
        ),
        ("change(words) < 0.1", change(measure.words) < 0.1),
        ("change(prose.words) < 0.1 or errors == 0", (change("prose.words") < 0.1) | (errors == 0)),
        ("prose.words >= -3", measure.prose.words >= -3),
        ("all_tests_passing >= 1", measure.all_tests_passing >= 1),
    ],
)
def test_a_condition_reads_alike_as_text_and_in_python(text: str, condition: Condition) -> None:
    assert parse_condition(text) == condition
    assert print_condition(condition) == text
    check_reading(condition, (TESTS, PROSE))


def test_a_measure_that_stands_alone_is_at_least_one() -> None:
    assert parse_condition("all_tests_passing") == Compare("criterion", ">=", 1, "all_tests_passing")
    assert parse_condition("not tests.all_tests_passing") == ~(measure.tests.all_tests_passing >= 1)
    assert parse_condition("0.1 > change(words)") == (change(measure.words) < 0.1)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("change(words)", "change is compared with a number; write change(words) < 0.1"),
        ("change < 0.1", "change"),
        ("change() < 0.1", "column 1: change is of one measure; write change(words) < 0.1"),
        ("change(words, 2) < 0.1", "change is of one measure"),
        ("change(words) < 1 of 10", "change has no scale"),
        ("change(change(words)) < 1", "write a criterion here"),
        ("change(words) < 0", "change(words) < 0 can never hold, as change is a number from 0"),
        ("change(score) < 0.1", "change is of a measure, and score is none; write plateau(gain=0.01, over=2)"),
        ("change(errors) < 0.1", "'errors' is no criterion or measure; write one, such as accuracy or words"),
        ("cange(words) < 0.1", "column 1"),
    ],
)
def test_a_wrong_text_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ConditionError) as refused:
        parse_condition(text)
    assert fault in str(refused.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("wrods >= 300", "wrods is no criterion or measure that a critic here declares; did you mean words?"),
        ("tests.word >= 300", "did you mean"),
        ("words >= 300", "words >= 300: words is measured by several critics; write prose.words or judge.words"),
        ("judge.words >= 3 of 10", "names a scale, and words is a measure, which has none; write one number"),
        ("plateau(of=failing)", "failing is a measure, which has no scale; name a criterion"),
        ("oscillating(of=failing)", "failing is a measure"),
        ("change(tone) < 0.1", "change(tone): tone is a criterion; write plateau(gain=0.01, over=2, of=tone)"),
        ("change(wrods) < 0.1", "did you mean words?"),
        ("all_test_passing", "did you mean all_tests_passing?"),
    ],
)
def test_what_no_critic_of_the_loop_counts_is_refused_with_the_nearest(text: str, fault: str) -> None:
    with pytest.raises(ConditionError) as refused:
        check_reading(parse_condition(text), (TESTS, PROSE, JUDGE))
    assert fault in str(refused.value)


def test_a_name_of_two_kinds_says_whose_is_meant() -> None:
    other = Step("critic", "other", "other", measures=("tone",))
    with pytest.raises(ConditionError, match=r"tone is a criterion here and a measure; write other\.tone"):
        check_reading(parse_condition("tone >= 8"), (JUDGE, other))
    check_reading(parse_condition("other.tone >= 8 and judge.tone >= 8"), (JUDGE, other))


def test_two_critics_of_one_name_cannot_be_told_apart() -> None:
    with pytest.raises(ConditionError, match="two critics here are named prose"):
        check_reading(parse_condition("prose.words >= 1"), (PROSE, PROSE))


def test_a_word_that_is_nearly_one_of_conditions_is_a_slip_of_the_pen() -> None:
    for slip in ("aproved", "scor >= 0.9", "platau"):
        with pytest.raises(ConditionError, match="did you mean"):
            parse_condition(slip)
