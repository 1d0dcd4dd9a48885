"""`--set KEY=VALUE`: every form, and what is told when one is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.app.cli_calls import call
from tests.streams import article

from redraft.actors.deciding.evolve import fold
from redraft.actors.plans.paths import steps_in
from redraft.app.workflows.run_settings import LOOP_KEYS, STEP_KEYS, apply_settings, refuse_vain
from redraft.events.errors import InputError
from redraft.events.messages.conditions import score
from redraft.events.messages.plan import Criterion, Parallel, Plan, Repeat, Step

WRITE = Step("generator", "write", "write", options={"model": "small"})
JUDGE, OTHER = Step("critic", "judge", "judge", options={"model": "small"}), Step("critic", "other", "other")
IMPROVE, SAVE = Step("refiner", "improve", "improve"), Step("publisher", "save", "save")
PLAN = Plan("p", (WRITE, Repeat("Loop", score >= 0.9, 3, (Parallel("critics", (JUDGE, OTHER)), IMPROVE)), SAVE))
NESTED = Plan(
    "p", (WRITE, Repeat("Outer", score >= 0.9, 3, (Repeat("Inner", score >= 0.8, 2, (JUDGE, IMPROVE)),)), SAVE)
)
TWICE = Plan("p", (WRITE, *(Repeat(name, score >= 0.9, 3, (JUDGE, IMPROVE)) for name in ("Outer", "Inner")), SAVE))


def loop(plan: Plan) -> Repeat:
    found = plan.steps[1]
    assert isinstance(found, Repeat)
    return found


def step(plan: Plan, path: str) -> Step:
    return dict(steps_in(plan.steps))[path]


def test_settings_of_the_loop() -> None:
    settings = ["until=score >= 0.95 or plateau()", "max_iterations = 8", "keep=last", "rollback_margin=0.25"]
    made = apply_settings(PLAN, settings)
    assert (loop(made.plan).max_iterations, loop(made.plan).keep, loop(made.plan).rollback_margin) == (8, "last", 0.25)
    assert loop(made.plan).until != loop(PLAN).until
    assert made.nodes == {"Loop"}
    assert apply_settings(PLAN, []).plan == PLAN


def test_a_margin_may_say_its_scale_and_one_without_is_on_none() -> None:
    judge = Step("critic", "judge", "judge", scale=(1.0, 10.0))
    plan = Plan("p", (PLAN.steps[0], Repeat("Loop", score >= 8, 3, (judge, Step("refiner", "improve", "improve")))))
    made = apply_settings(plan, ["rollback_margin=1 of 10"]).plan
    assert (loop(made).rollback_margin, loop(made).rollback_top) == (1, 10)
    made = apply_settings(made, ["rollback_margin=2"]).plan
    assert (loop(made).rollback_margin, loop(made).rollback_top) == (2, None)
    with pytest.raises(
        InputError,
        match=r"--set: Loop: rollback_margin 1 could be meant on two scales; write rollback_margin: 1 of 10, or",
    ):
        apply_settings(plan, ["rollback_margin=1"])
    with pytest.raises(InputError, match=r"'1 of ten' is no margin; write a number such as 0\.1, or 1 of 10"):
        apply_settings(plan, ["rollback_margin=1 of ten"])


def test_settings_of_a_loop_among_several() -> None:
    for key in ("Inner.until", "Outer/Inner.until"):
        outer = loop(apply_settings(NESTED, [f"{key}=score >= 0.5"]).plan)
        assert outer.until == (score >= 0.9)
        assert isinstance(outer.body[0], Repeat)
        assert outer.body[0].until == (score >= 0.5)


def test_settings_of_the_plan_and_of_steps() -> None:
    made = apply_settings(
        PLAN, ["on_failure=publish_best", "judge.timeout=2m", "Loop/critics/other.actor=strict", "save.path=a=b"]
    )
    assert made.plan.on_failure == "publish_best"
    assert step(made.plan, "Loop/critics/judge").timeout == 120.0
    assert step(made.plan, "Loop/critics/other").actor == "strict"
    assert step(made.plan, "save").options == {"path": "a=b"}
    assert made.nodes == {"Loop", "save"}


def test_an_option_of_every_step_that_has_it() -> None:
    made = apply_settings(PLAN, ["model=large"])
    assert [each.options.get("model") for _, each in steps_in(made.plan.steps)] == ["large", "large", None, None, None]
    assert made.nodes == {"write", "Loop"}


@pytest.mark.parametrize(
    ("value", "meant"),
    [("3", 3), ("-1", -1), ("0.5", 0.5), ("true", True), ("false", False), ("1.2.3", "1.2.3"), ("", "")],
)
def test_options_are_numbers_truths_or_texts(value: str, meant: object) -> None:
    assert step(apply_settings(PLAN, [f"judge.strict={value}"]).plan, "Loop/critics/judge").options["strict"] == meant


@pytest.mark.parametrize(
    ("plan", "setting", "said"),
    [
        (PLAN, "until", "write KEY=VALUE, such as max_iterations=8"),
        (PLAN, "=3", "write KEY=VALUE"),
        (PLAN, "until=scor >= 1", "--set until: condition, column 1"),
        (PLAN, "max_iterations=many", "--set max_iterations: it is 'many'; write a number"),
        (PLAN, "max_iterations=0", "max_iterations is 0"),
        (PLAN, "keep=first", "--set keep: it is 'first'; write best or last"),
        (PLAN, "on_failure=stop", "write fail or publish_best"),
        (PLAN, "judge.timeout=soon", "--set judge.timeout: it is 'soon'; write seconds, or 90s, 2m, 1h"),
        (PLAN, "judge.timeout=0", "timeout is 0.0"),
        (PLAN, "judgee.model=x", "there is no step or loop 'judgee'; did you mean"),
        (
            PLAN,
            "temperature=1",
            "no step has this; it is one of until, max_iterations, keep, rollback_margin, rollback_of, ",
        ),
        (TWICE, "until=score >= 1", "which loop is meant? Name one with its path: Outer, Inner"),
        (PLAN, "Lop.until=score >= 1", "there is no step or loop 'Lop'"),
        (PLAN, "write.actor=", "actor is empty"),
    ],
)
def test_what_is_no_setting_is_told(plan: Plan, setting: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        apply_settings(plan, [setting])
    assert said in str(raised.value)


def test_what_is_left_behind_cannot_be_changed() -> None:
    events = article()
    plan = fold(event.data for event in events[:3]).plan
    late, early = fold(event.data for event in events[:-2]), fold(event.data for event in events[:6])
    for settings in (["until=score >= 1"], ["write.timeout=9"]):
        with pytest.raises(
            InputError, match=r"(Refinement|write) is already done at event \d+; fork at an earlier one"
        ):
            refuse_vain(late, apply_settings(plan, settings))
    refuse_vain(late, apply_settings(plan, ["save.timeout=9"]))
    refuse_vain(early, apply_settings(plan, ["until=score >= 1"]))


JUDGED = Step("critic", "judge", "judge", criteria=(Criterion("accuracy"), Criterion("tone")))
LATE = Step("critic", "late", "late", when=score >= 0.5)
LATER = Plan("p", (WRITE, Repeat("Loop", score >= 0.9, 3, (JUDGED, LATE, IMPROVE)), SAVE))


def test_settings_of_criteria_history_issues_and_late_critics() -> None:
    settings = ["rollback_of=accuracy", "judge.history=2", "improve.only_issues=true", "late.when=score >= 0.7"]
    made = apply_settings(LATER, settings).plan
    assert loop(made).rollback_of == "accuracy"
    assert loop(apply_settings(made, ["rollback_of=score"]).plan).rollback_of == ""
    assert step(made, "Loop/judge").history == 2
    assert step(made, "Loop/improve").only_issues
    assert step(made, "Loop/late").when == (score >= 0.7)


def test_an_option_named_history_is_meant_where_a_step_has_one() -> None:
    asks = Plan("p", (replace(WRITE, options={"history": 1}), *LATER.steps[1:]))
    assert step(apply_settings(asks, ["write.history=3"]).plan, "write").options == {"history": 3}


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("rollback_of=acuracy", "--set: Loop: rollback_of: acuracy .*did you mean accuracy"),
        ("judge.history=all", "--set judge.history: it is 'all'; write how many texts of earlier drafts come along"),
        ("judge.history=21", r"Loop/judge: history is 21; write how many texts"),
        ("improve.only_issues=1", "--set improve.only_issues: it is '1'; write true or false"),
        ("judge.only_issues=true", "only_issues is for refiners"),
        ("judge.when=score >= 0.5", "--set judge.when: judge is always asked: a fork changes no more than"),
        ("late.when=score >=", "--set late.when: condition, column"),
        ("judge.scale=1", "--set judge.scale: a fork does not change the scale of a step; it changes timeout, "),
        ("judge.reuse=run", "--set judge.reuse: a fork does not change the reuse of a step"),
    ],
)
def test_settings_that_cannot_be_are_refused(setting: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        apply_settings(LATER, [setting])


def test_the_page_on_forks_names_the_settings_that_there_are() -> None:
    page = (Path(__file__).parents[3] / "docs" / "history.md").read_text(encoding="utf-8")
    table = page.split("| `--set KEY=VALUE` | |")[1].split("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall("`([^`]+)`", row.split(" | ")[0])]
    of_steps = [*(f"STEP.{key}" for key in STEP_KEYS), "STEP.OPTION"]
    assert sorted(named) == sorted([*LOOP_KEYS, "on_failure", *of_steps, "OPTION", "state.NAME"])
    text = " ".join(call("fork", "--help").out.replace("│", " ").split())
    assert [key for key in (*LOOP_KEYS, *of_steps) if key not in text] == []
