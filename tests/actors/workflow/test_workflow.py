from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.roles import critic, generator, publisher, refiner
from redraft.actors.workflow.workflow import Workflow, parallel, repeat, step
from redraft.events.errors import ActorError, ConditionError, InputError, PlanError
from redraft.events.messages.conditions import outputs, plateau, score
from redraft.events.messages.content import Critique, Draft
from redraft.events.messages.plan import Parallel, Plan, Repeat, Retry, Step


@generator
def write(brief: str) -> str:
    return brief


@critic
def judge(draft: str) -> Critique:
    return Critique(len(draft) / 100)


@critic
def facts(draft: str) -> Critique:
    return Critique(len(draft) / 200)


@refiner
def improve(draft: str) -> str:
    return draft + "."


@publisher
def save(draft: str) -> str:
    return draft


ARTICLE = (
    Workflow("article")
    .start_with(write)
    .repeat_until(score >= 0.9, max_iterations=5, name="Refinement", body=[judge, improve])
    .finally_(save)
)


def test_a_margin_may_be_written_as_in_yaml() -> None:
    judge = step("judge", role="critic", scale=(1, 10))
    body = [judge, step("improve", role="refiner")]
    made = repeat("Loop", until="score >= 8", max_iterations=3, body=body, rollback_margin="1 of 10")
    assert isinstance(made.node, Repeat)
    assert (made.node.rollback_margin, made.node.rollback_top) == (1, 10)
    with pytest.raises(PlanError, match=r"^Loop: rollback_margin: '1 of ten' is no margin; write a number such as 0.1"):
        repeat("Loop", until="score >= 8", max_iterations=3, body=body, rollback_margin="1 of ten")
    begun = Workflow("w").start_with(step("write", role="generator"))
    wide = begun.repeat_until("score >= 8", max_iterations=3, name="Loop", body=body, rollback_margin=20)
    with pytest.raises(PlanError, match=r"rollback_margin is 20; write a number, 0 to 9, such as 1 of 10$"):
        _ = wide.plan


def test_the_builder_gives_the_plan_as_data() -> None:
    assert ARTICLE.plan == Plan(
        "article",
        (
            Step("generator", "write", "write"),
            Repeat(
                "Refinement",
                score >= 0.9,
                5,
                (Step("critic", "judge", "judge"), Step("refiner", "improve", "improve")),
            ),
            Step("publisher", "save", "save"),
        ),
    )


def test_a_workflow_knows_the_actors_that_it_was_built_with() -> None:
    assert dict(ARTICLE.actors) == {"write": write, "judge": judge, "improve": improve, "save": save}


def test_each_call_leaves_the_workflow_before_as_it_was() -> None:
    start = Workflow("article").start_with(write)
    longer = start.then(judge).on_failure("publish_best")
    assert (len(start.plan.steps), start.plan.on_failure, set(start.actors)) == (1, "fail", {"write"})
    assert (len(longer.plan.steps), longer.plan.on_failure) == (2, "publish_best")


def test_workflows_are_equal_when_their_plans_are() -> None:
    named = Workflow.of(ARTICLE.plan)
    assert named == ARTICLE
    assert hash(named) == hash(ARTICLE)
    assert named != Workflow.of(ARTICLE.plan).then(step("copy", role="publisher"))
    assert named != "article"


def test_a_plan_and_actors_make_a_workflow() -> None:
    again = Workflow.of(ARTICLE.plan, [*ARTICLE.actors.values(), facts])
    assert (again, again.actors) == (ARTICLE, ARTICLE.actors)
    assert Workflow.of(ARTICLE.plan, ARTICLE.actors).actors == ARTICLE.actors


def test_steps_take_their_settings() -> None:
    given = step(judge, name="strict", timeout=60, retry=Retry(attempts=1), options={"rules": ["E", "F"]})
    assert given.node == Step("critic", "judge", "strict", 60, Retry(attempts=1), {"rules": ["E", "F"]})
    assert step("judge", role="critic").node == step(judge).node


def test_options_are_copied() -> None:
    rules: list[str | int] = ["E"]
    given = step(judge, options={"rules": rules})
    rules.append("F")
    assert given.node == Step("critic", "judge", "judge", options={"rules": ["E"]})


def test_parallels_and_loops_nest_and_bring_their_actors() -> None:
    chapters = Workflow("book").repeat_until(
        "outputs >= 5",
        max_iterations=5,
        name="Chapters",
        body=[
            parallel("Drafts", write, step(write, name="again"), judge=judge),
            repeat(
                "Refinement",
                until=(score >= 0.9) | plateau(),
                max_iterations=3,
                body=[parallel("Panel", judge, facts, wait=1, combine="weights", weights=[2, 1]), improve],
                keep="last",
                rollback_margin=0.2,
            ),
        ],
    )
    again = Step("generator", "write", "again")
    judging, checking = Step("critic", "judge", "judge"), Step("critic", "facts", "facts")
    panel = Parallel("Panel", (judging, checking), 1, "weights", (2, 1))
    inner = (panel, Step("refiner", "improve", "improve"))
    drafts = Parallel("Drafts", (Step("generator", "write", "write"), again), judge=judging)
    refinement = Repeat("Refinement", (score >= 0.9) | plateau(), 3, inner, "last", 0.2)
    assert chapters.plan == Plan("book", (Repeat("Chapters", outputs >= 5, 5, (drafts, refinement)),))
    assert set(chapters.actors) == {"write", "judge", "facts", "improve"}


def test_nodes_of_a_plan_are_taken_as_they_are() -> None:
    assert Workflow("article").then(*ARTICLE.plan.steps) == ARTICLE


def another(name: str, make: Callable[..., object] = critic) -> Actor:
    def judge(draft: str) -> str:
        return draft

    made = make(name=name)
    assert callable(made)
    actor = made(judge)
    assert isinstance(actor, Actor)
    return actor


start = Workflow("article").start_with(write)
REFUSED: list[tuple[str, Callable[[], object], type[InputError], str]] = [
    ("a name", lambda: Workflow("my article"), PlanError, "name 'my article' cannot be used; write only letters"),
    ("no name", lambda: Workflow(""), PlanError, "name is empty"),
    ("begun", lambda: start.start_with(write), PlanError, "the workflow 'article' has begun; add more steps with then"),
    ("twice", lambda: start.then(write), PlanError, "write: name 'write' is already that of a node beside it"),
    (
        "a step of a function that takes something else",
        lambda: step(len),
        ActorError,
        "@step len: arguments come by name",
    ),
    ("a plain function", lambda: start.then(len), PlanError, "len: this is not part of a workflow; decorate the"),  # type: ignore[arg-type]
    (
        "no limit",
        lambda: repeat("R", until="approved", max_iterations=0, body=[judge]),
        PlanError,
        "R: max_iterations is 0",
    ),
    (
        "no list",
        lambda: repeat("R", until="approved", max_iterations=1, body=judge),  # type: ignore[arg-type]
        PlanError,
        "judge: a list of actors, steps and loops is expected here; put this one in [ ]",
    ),
    (
        "twice in a body",
        lambda: start.repeat_until(score >= 0.9, max_iterations=2, body=[judge, judge]),
        PlanError,
        "Refinement/judge: name 'judge' is already",
    ),
    (
        "a condition's text",
        lambda: start.repeat_until("scor >= 0.9", max_iterations=2, body=[judge]),
        ConditionError,
        "condition, column 1: 'scor' is not known; did you mean score?",
    ),
    (
        "a truth",
        lambda: start.repeat_until(True, max_iterations=2, body=[judge]),  # type: ignore[arg-type]
        PlanError,
        "Refinement: until: True is not a condition; write one such as score >= 0.9",
    ),
    ("a timeout", lambda: step(judge, timeout="5m"), PlanError, "judge: timeout is '5m'; write seconds"),  # type: ignore[arg-type]
    ("options", lambda: step(judge, options=5), PlanError, "judge: with is 5"),  # type: ignore[arg-type]
    ("no role", lambda: step("judge"), PlanError, "'judge': role is missing; write step('judge', role=\"critic\")"),
    (
        "an unknown role",
        lambda: step("judge", role="critik"),  # type: ignore[arg-type]
        PlanError,
        "judge: role is 'critik'; did you mean critic?",
    ),
    ("another role", lambda: step(judge, role="refiner"), PlanError, "role is 'refiner', but it is a critic"),
    ("a loop in parallel", lambda: parallel("P", judge, ARTICLE.plan.steps[1]), PlanError, "P/Refinement: only steps"),
    ("one in parallel", lambda: parallel("P", judge), PlanError, "P: steps: 1 given"),
    ("no judge", lambda: parallel("P", write, step(write, name="b")), PlanError, "P: judge is missing"),
    ("on failure", lambda: start.on_failure("retry"), PlanError, "on_failure is 'retry'; write fail or publish_best"),  # type: ignore[arg-type]
    (
        "two of one name",
        lambda: start.then(judge).then(step(another("judge"), name="b")),
        ActorError,
        "two different actors are named 'judge'; give one of them another name=",
    ),
    (
        "a plan's other role",
        lambda: Workflow.of(ARTICLE.plan, [another("improve")]),
        ActorError,
        "Refinement/improve: the plan wants improve as a refiner, but it is a critic",
    ),
    ("no steps", lambda: Workflow("article").plan, PlanError, "the workflow 'article' has no steps"),
    (
        "nothing judged",
        lambda: start.then(save).plan,
        PlanError,
        "save: nothing judges the draft before it is published",
    ),
    ("nothing written", lambda: Workflow("a").then(judge).plan, PlanError, "judge: nothing has written a draft yet"),
    ("a wrong plan", lambda: Workflow.of(Plan("a", ())), PlanError, "the workflow 'a' has no steps"),
]


@pytest.mark.parametrize(("build", "error", "fault"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED])
def test_what_is_built_wrong_is_refused_at_the_call_that_makes_it(
    build: Callable[[], object], error: type[InputError], fault: str
) -> None:
    with pytest.raises(error) as refusal:
        build()
    assert str(refusal.value).startswith(fault) or fault in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_workflow_may_be_incomplete_while_it_is_built() -> None:
    assert len(Workflow("article").then(judge).actors) == 1


def test_a_condition_can_be_about_what_a_shipped_critic_counts():
    tests = step("pytest", role="critic", options={"tests": ["tests"]})
    made = Workflow("w").start_with(write).repeat_until("all_tests_passing", max_iterations=2, body=[tests])
    (_, loop) = made.plan.steps
    assert isinstance(loop, Repeat)
    assert "all_tests_passing" in cast("Step", loop.body[0]).measures


def test_a_critic_of_ones_own_by_the_name_of_a_shipped_one_declares_what_it_counts():
    @critic(measures=("lines",))
    def prose(draft: Draft) -> dict[str, object]:
        return {"measures": {"lines": 1}}

    named = (
        Workflow("w")
        .start_with(write)
        .repeat_until("lines >= 2", max_iterations=2, body=[step("prose", role="critic")])
    )
    with pytest.raises(PlanError, match="lines is no criterion or measure"):
        named.plan  # noqa: B018 - it is the shipped one
    assert cast("Step", cast("Repeat", named.plan_with([prose]).steps[1]).body[0]).measures == ("lines",)
