"""What critics return as measures: numbers of any kind, by the names that they or the plan declare."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from redraft.actors import Critique, critic
from redraft.actors.runtime.working.call import Call
from redraft.actors.runtime.working.results import critique_of, measures_of
from redraft.actors.runtime.working.returned_values import InvalidResult
from redraft.events.errors import ActorError
from redraft.events.messages.commands import Critiqued, CritiqueDraft, Failed, Request
from redraft.events.messages.content import Brief, new_draft


async def judged(returned: Any, declared: Any = ("words", "coverage?"), recorded: tuple[str, ...] = ()) -> Any:
    """The outcome of a critic that returns this, where the plan has these measures, or those that are declared."""
    import asyncio

    @critic(measures=declared)
    async def judge(draft: Any) -> Any:
        return returned

    plan = recorded or judge.measures_by({})
    request = Request("r/judge#1", "r", "judge", "judge", 1, 10.0, Brief("b"), measures=plan)
    ended = asyncio.Event()
    call = Call(judge, CritiqueDraft(request, new_draft(1, "a draft")), ended.set)
    async with asyncio.timeout(10):
        await ended.wait()
    return call.outcome()


@pytest.mark.parametrize(
    ("returned", "measures"),
    [
        ({"score": 0.5, "measures": {"words": 312, "coverage": None}}, {"words": 312}),
        ({"score": 0.5, "measures": {"words": 312}}, {"words": 312}),
        ({"score": 0.5, "measures": {"coverage": Decimal("0.81"), "words": True}}, {"words": 1, "coverage": 0.81}),
        (Critique(0.5, measures={"words": -3, "coverage": 0.5}), {"words": -3, "coverage": 0.5}),
        ({"measures": {"words": Fraction(1, 2)}}, {"words": 0.5}),
    ],
)
async def test_numbers_are_recorded_as_they_are(returned: Any, measures: dict[str, float]) -> None:
    outcome = await judged(returned)
    assert isinstance(outcome, Critiqued), outcome
    assert outcome.critique.measures == measures
    assert list(outcome.critique.measures) == [name for name in ("words", "coverage") if name in measures]


async def test_what_only_counts_has_no_score() -> None:
    outcome = await judged({"measures": {"words": 312}})
    assert (outcome.critique.scored, outcome.critique.approved) == (False, None)


@pytest.mark.parametrize(
    ("returned", "fault"),
    [
        (0.5, "gave no number for words, a measure that it declares"),
        (True, "gave no number for words, a measure that it declares"),
        ({"score": 0.5, "measures": {"coverage": 1}}, "gave no number for words"),
        ({"score": 0.5, "measures": {"words": None}}, "gave no number for words"),
        ({"score": 0.5, "measures": {"words": 1, "wrods": 2}}, "'wrods', a measure that it does not declare; did you"),
        ({"score": 0.5, "measures": {"words": "many"}}, "gave words as a str, not a number"),
        ({"score": 0.5, "measures": {"words": float("nan")}}, "gave words as nan; a measure is a number up to 10**15"),
        ({"score": 0.5, "measures": {"words": 10**16}}, "a measure is a number up to 10**15"),
        ({"score": 0.5, "measures": {"words": 10**400}}, "gave words as a number that cannot be recorded"),
        ({"score": 0.5, "measures": {"words": -(10**5000)}}, "gave words as a number that cannot be recorded"),
        ({"score": 0.5, "measures": {"words": Fraction(10**400, 3)}}, "gave words as a number that cannot be recorded"),
        ({"score": 0.5, "measures": {"words": Decimal("sNaN")}}, "gave words as a number that cannot be recorded"),
        ({"score": 10**400, "measures": {"words": 1}}, "gave score as a number that cannot be recorded"),
        (
            {"score": 0.5, "confidence": 10**400, "measures": {"words": 1}},
            "gave confidence as a number that cannot be recorded",
        ),
        (10**400, "gave score as a number that cannot be recorded"),
        (Critique(10**400, measures={"words": 1}), "cannot be recorded"),
        (Critique(0.5, samples=(10**400,), measures={"words": 1}), "wrong"),
        (Critique(0.5, measures={"words": 10**400}), "cannot be recorded"),
        ({"score": 0.5, "measures": [1]}, "returned measures as a list; give each by its name"),
    ],
)
async def test_what_is_missing_unknown_or_no_number_is_invalid(returned: Any, fault: str) -> None:
    outcome = await judged(returned)
    assert isinstance(outcome, Failed), outcome
    assert (outcome.kind, outcome.retryable) == ("invalid", False)
    assert fault in outcome.message


async def test_a_critic_that_declares_nothing_may_count_nothing() -> None:
    outcome = await judged({"score": 0.5, "measures": {"words": 1}}, declared=())
    assert outcome.kind == "invalid"
    assert "declare it with @critic(measures=('words',))" in outcome.message


async def test_the_plan_declares_for_a_critic_that_does_not() -> None:
    outcome = await judged({"score": 0.5, "measures": {"words": 1}}, declared=(), recorded=("words",))
    assert outcome.critique.measures == {"words": 1}


async def test_the_plan_chooses_what_is_recorded() -> None:
    outcome = await judged({"score": 0.5, "measures": {"words": 1, "coverage": 1}}, recorded=("coverage",))
    assert outcome.critique.measures == {"coverage": 1}
    outcome = await judged({"score": 0.5, "measures": {"words": 1}}, recorded=("coverage",))
    assert "gave no number for coverage" in outcome.message


def test_a_plan_of_before_records_none_of_them() -> None:
    assert measures_of({"words": 1}, ("words",), ()) == {}


def test_a_number_alone_has_no_measures() -> None:
    @critic
    def judge(draft: Any) -> float:
        return 0.5

    assert critique_of(judge, 0.5).measures == {}
    with pytest.raises(InvalidResult, match="declare it with"):
        measures_of({"words": 1}, (), ())


@pytest.mark.parametrize("name", ["no name", "score", "tokens", "approved", "change", "words?x", ""])
def test_a_name_that_no_condition_can_use_is_refused(name: str) -> None:
    with pytest.raises(ActorError, match="@critic: measures: "):

        @critic(measures=(name,))
        def judge(draft: Any) -> float:
            return 0.5


def test_a_measure_and_a_criterion_have_two_names() -> None:
    with pytest.raises(ActorError, match="words comes twice, or is a criterion too"):

        @critic(criteria={"words": "few"}, measures=("words",))
        def judge(draft: Any) -> float:
            return 0.5
