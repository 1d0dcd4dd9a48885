"""Critics that look at more than they are given say so, and no plan that begins has all runs take their verdicts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from redraft.actors.workflow.actor import Hermetic
from redraft.actors.workflow.roles import critic, generator
from redraft.actors.workflow.workflow import Workflow, parallel, pin_versions, repeat, step
from redraft.events.errors import ActorError, PlanError
from redraft.events.messages.plan import Option, Reuse


@generator
def write(brief): ...


def judging(hermetic: Hermetic):
    @critic(name="judge", version="1", hermetic=hermetic)
    def judge(draft): ...

    return judge


def names_a_model(options: Mapping[str, Option]) -> bool:
    return bool(options.get("model"))


@pytest.mark.parametrize(
    ("hermetic", "options", "expected"),
    [
        (True, {}, True),
        (False, {}, False),
        (names_a_model, {}, False),
        (names_a_model, {"model": ""}, False),
        (names_a_model, {"model": "m"}, True),
    ],
)
def test_a_critic_says_whether_it_is_hermetic_or_what_tells_it_by_its_options(
    hermetic: Hermetic, options: Mapping[str, Option], expected: bool
):
    assert judging(hermetic).is_hermetic(options) is expected


def test_what_a_function_says_is_true_or_false():
    assert judging(lambda options: options.get("model")).is_hermetic({"model": "m"}) is True  # type: ignore[arg-type, return-value]


def test_anything_else_is_refused():
    with pytest.raises(ActorError, match="@critic judge: hermetic is 'no'; write False, or a function of the options"):
        judging("no")  # type: ignore[arg-type]


def flow(hermetic: Hermetic, reuse: Reuse | None = "always", **options: Option) -> Workflow:
    judge = judging(hermetic)
    panel = parallel("Panel", step(judge, reuse=reuse, options=options), step(judge, name="other"))
    return (
        Workflow("p").start_with(write).then(repeat("Loop", until="score >= 1", max_iterations=2, body=[panel, write]))
    )


def test_a_plan_that_begins_is_refused_where_all_runs_are_to_take_what_depends_on_more():
    begun = flow(names_a_model)
    with pytest.raises(PlanError) as refused:
        pin_versions(begun.plan, begun.actors.values())
    said = (
        "reuse is always, but judge looks at more than it is given by its options (the file of a prompt, a model that "
        "they do not name), which may be another then; name a model, give instructions in place of the file, or write "
        "run"
    )
    assert (refused.value.path, refused.value.fault) == ("Loop/Panel/judge", said)


@pytest.mark.parametrize(
    "begun", [flow(names_a_model, model="m"), flow(names_a_model, "run"), flow(names_a_model, None), flow(False, "run")]
)
def test_others_begin(begun: Workflow):
    assert pin_versions(begun.plan, begun.actors.values()).steps[0].version  # type: ignore[union-attr]


def test_where_nobody_knows_the_actor_nothing_is_refused():
    assert pin_versions(flow(names_a_model).plan, ()).steps


def test_one_that_is_plainly_not_hermetic_is_refused_where_the_plan_is_written():
    with pytest.raises(PlanError, match=r"judge looks at more than it is given .files, programs, a database."):
        flow(False)
