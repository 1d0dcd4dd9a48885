"""What critics that declare criteria may return, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from redraft.actors.runtime.working.results import critique_of
from redraft.actors.runtime.working.returned_values import InvalidResult
from redraft.actors.workflow.roles import critic
from redraft.actors.workflow.workflow import Workflow, repeat, step
from redraft.events.errors import ActorError, PlanError
from redraft.events.messages.content import Critique, Draft, Mark
from redraft.events.messages.plan import Criterion, steps_of

CRITERIA = {"accuracy": "every claim is right", "tone": Criterion("", "for children", (0.0, 100.0))}


def judged(returned: object) -> Critique:
    @critic(scale=(1, 10), criteria=CRITERIA, weights={"accuracy": 3})
    def judge(draft: Draft) -> object:
        return returned

    return critique_of(judge, returned, (1, 10), judge.criteria)


@dataclass
class Score:
    score: float
    confidence: float
    reason: str = ""


class Both(BaseModel):
    accuracy: float
    tone: float


class Judged(BaseModel):
    criteria: Both


@pytest.mark.parametrize(
    "returned",
    [
        {"criteria": {"accuracy": 5.5, "tone": 50}},
        {"criteria": {"tone": {"score": 50}, "accuracy": {"score": 5.5}}},
        {"criteria": [{"name": "accuracy", "score": 5.5}, {"name": "tone", "score": 50}]},
        {"accuracy": 5.5, "tone": 50},
        {"tone": {"score": 50}, "accuracy": {"score": 5.5}, "criteria": None},
        Both(accuracy=5.5, tone=50),
        Critique(5.5, criteria=(Mark("accuracy", 5.5), Mark("tone", 50))),
    ],
)
def test_scores_by_criterion_are_kept_as_shares_and_their_mean_is_the_score(returned: object) -> None:
    said = judged(returned)
    assert (said.score, said.scored, said.scale) == (0.5, True, (1, 10))
    assert said.criteria == (Mark("accuracy", 0.5), Mark("tone", 0.5))


def test_the_score_is_the_weighted_mean_unless_the_critic_gives_one() -> None:
    assert judged(Judged(criteria=Both(accuracy=10, tone=0))).score == 0.75
    assert judged({"score": 1, "criteria": {"accuracy": 10, "tone": 0}}).score == 0.0


def test_scores_that_stand_beside_other_fields_are_taken_as_criteria_and_the_rest_as_ever() -> None:
    said = judged({"score": 10, "accuracy": 1, "tone": 0, "suggestions": "cut", "model": "m"})
    assert [mark.score for mark in said.criteria] == [0.0, 0.0]
    assert (said.score, said.suggestions, said.details) == (1.0, ("cut",), {"model": "m"})
    named = judged({"criteria": {"accuracy": 10, "tone": 100}, "accuracy": "good"})
    assert (named.score, named.details) == (1.0, {"accuracy": "good"})


def test_confidences_are_kept_and_the_lowest_is_that_of_the_whole() -> None:
    said = judged({"criteria": {"accuracy": Score(10, 0.9, "checked"), "tone": Score(100, 0.6)}})
    assert (said.confidence, said.criteria[0].confidence, said.criteria[0].reason) == (0.6, 0.9, "checked")
    assert judged({"confidence": 0.3, "criteria": {"accuracy": 1, "tone": Score(100, 0.6)}}).confidence == 0.3


@pytest.mark.parametrize(
    ("returned", "fault"),
    [
        ({"criteria": {"accuracy": 5}}, "gave no score for tone"),
        ({"score": 5}, "gave no score for accuracy"),
        ({"accuracy": 5}, "gave no score for tone"),
        ({"acuracy": 5, "tome": 50}, "or declare @critic"),
        (
            {"criteria": {"accuracy": 5, "tone": 5, "tome": 5}},
            "'tome', a criterion that it does not declare; did you mean",
        ),
        ({"criteria": {"accuracy": 11, "tone": 5}}, "gave accuracy a score of 11, outside its scale of 1 to 10"),
        ({"criteria": {"accuracy": 10.0000001, "tone": 5}}, "gave accuracy a score of 10.0000001, outside its scale"),
        ({"criteria": {"accuracy": float("nan"), "tone": 5}}, "gave accuracy a score of nan"),
        ({"criteria": {"accuracy": "good", "tone": 5}}, "gave accuracy a str, not a number"),
        ({"criteria": {"accuracy": True, "tone": 5}}, "gave accuracy a bool, not a number"),
        ({"criteria": 7}, "give each by its name"),
        ({"criteria": {"accuracy": {"score": 5, "confidence": 2}, "tone": 5}}, "accuracy a confidence of 2, outside"),
        ({"criteria": {"accuracy": 5, "tone": 5}, "confidence": -1}, "gave a confidence of -1"),
        (
            {"criteria": {"accuracy": {"score": 5, "confidense": 0.5}, "tone": 5}},
            "criteria.accuracy with 'confidense', which is no field of it; did you mean confidence?",
        ),
        (
            {"criteria": [{"name": "accuracy", "score": 5, "quotes": "x"}, {"name": "tone", "score": 5}]},
            "'quotes', which is no field of it; did you mean quote?",
        ),
        (
            {"criteria": {"accuracy": 5, "tone": 5}, "issues": [{"text": "dull", "replacment": "x"}]},
            "issues[0] with 'replacment', which is no field of it; did you mean replacement?",
        ),
        (
            {"criteria": {"accuracy": 5, "tone": 5}, "issues": [{"text": "dull", "severity": "warn"}]},
            "an issue whose severity is 'warn'; did you mean warning?",
        ),
        (
            {"criteria": {"accuracy": 5, "tone": 5}, "issues": [{"text": "dull", "severity": 3}]},
            "an issue whose severity is 3; write error, warning or note",
        ),
    ],
)
def test_what_does_not_fit_the_declaration_is_invalid(returned: object, fault: str) -> None:
    with pytest.raises(InvalidResult) as refused:
        judged(returned)
    assert fault in str(refused.value)


def test_objects_may_have_fields_of_their_own_beside_those_that_are_read() -> None:
    mark = {"score": 5, "reason": "well said", "why_not_higher": "the end"}
    said = judged({"criteria": {"accuracy": mark, "tone": 5}, "issues": [{"text": "dull", "line": 3, "rule": "E1"}]})
    assert (said.criteria[0].reason, said.issues[0].text) == ("well said", "dull")


def test_actors_to_choose_among_with_the_same_criteria_on_other_scales_declare_the_criteria() -> None:
    """Their scores are compared as shares."""

    @critic(scale=(1, 10), criteria={"tone": "for children"})
    def ten(draft: Draft) -> float:
        return 5

    @critic(scale=(1, 5), criteria={"tone": "for children"})
    def five(draft: Draft) -> float:
        return 5

    write, improve = step("write", role="generator"), step("improve", role="refiner")
    judge = step(choose=[ten, five])
    loop = repeat("R", until="tone >= 0.8", max_iterations=2, body=[judge, improve])
    declared = dict(steps_of(Workflow("w").start_with(write).then(loop).plan.steps))["R/critique"]
    assert (declared.scale, declared.criteria) == (None, ten.criteria)


def test_an_undeclared_criterion_is_invalid() -> None:
    @critic
    def judge(draft: Draft) -> float:
        return 1

    with pytest.raises(InvalidResult, match=r"declare it with @critic\(criteria="):
        critique_of(judge, {"score": 1, "criteria": {"tone": 1}})


def one(draft: Draft) -> float:
    return 1


def test_a_scale_may_be_a_list_as_in_a_file() -> None:
    assert critic(scale=[1, 10])(one).scale == (1, 10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: critic(criteria={"score": "x"}), "score is a word of conditions"),
        (lambda: critic(criteria={"error": "x"}), "error is nearly errors, a word of conditions"),
        (lambda: critic(criteria={"a-b": "x"}), "'a-b' cannot be used in a condition"),
        (
            lambda: critic(criteria={"tone": "x"}, weights={"tome": 2}),
            "did you mean tone?",
        ),
        (lambda: critic(criteria={"tone": "x"}, weights={"tone": 0}), "all have the weight 0"),
        (lambda: critic(criteria={"tone": Criterion("", scale=(5, 1))}), "write two rising numbers"),
        (lambda: critic(criteria={"tone": Criterion("", scale=(0, 1e30))}), "its ends are numbers up to 10**15"),
        (lambda: critic(scale=5)(one), "scale is 5; write two rising numbers"),
        (lambda: critic(scale=(1, 5, 10))(one), "scale is (1, 5, 10); write two rising numbers"),
        (lambda: critic(scale=(1, "x"))(one), "scale is (1, 'x'); write two rising numbers"),
        (lambda: critic(scale=(-10, -1))(one), "let that be above 0"),
        (lambda: critic(criteria=["tone"]), "criteria are ['tone']; give each with what is meant"),
        (lambda: critic(criteria={"tone": "x"}, weights=2), "weights are 2; give a number by criterion"),
        (lambda: critic(weights={"tone": 2}), "weights are those of criteria, and none is given"),
        (lambda: critic(measures=3), "measures are 3; give names"),
        (lambda: critic(measures="words"), "measures are 'words'; give names"),
        (lambda: critic(fields=3)(one), "fields are 3; write such as"),
        (lambda: critic(fields={"a": 1})(one), "'a' stands for 1"),
        (lambda: critic(name=3)(one), "3 is not a name for an actor"),
    ],
)
def test_a_wrong_declaration_is_refused(make: Callable[[], object], fault: str) -> None:
    with pytest.raises(ActorError) as refused:
        make()
    assert fault in str(refused.value)


def test_a_plan_holds_what_its_critic_declares_and_may_not_say_otherwise() -> None:
    @critic(scale=(1, 10), criteria=CRITERIA)
    def judge(draft: Draft) -> float:
        return 5

    write, improve = step("write", role="generator"), step("improve", role="refiner")
    made = (
        Workflow("w").start_with(write).then(repeat("R", until="tone >= 60", max_iterations=2, body=[judge, improve]))
    )
    declared = dict(steps_of(made.plan.steps))["R/judge"]
    assert (declared.scale, declared.criteria) == (judge.scale, judge.criteria)
    with pytest.raises(PlanError, match="scale differ from those that judge declares"):
        step(judge, scale=(0, 5))
    with pytest.raises(PlanError, match="did you mean tone"):
        Workflow("w").start_with(write).repeat_until("tome >= 60", max_iterations=2, body=[judge, improve]).plan  # noqa: B018
