"""Verdicts are taken again in the same run: a critic is not asked twice about the very same."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from redraft.actors import (
    Context,
    Critic,
    Critique,
    Draft,
    Retry,
    Workflow,
    critic,
    generator,
    parallel,
    publisher,
    read_plan,
    refiner,
    step,
)
from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.forking import begin_fork
from redraft.actors.formats.yaml_writer import print_plan
from redraft.actors.plans.paths import map_nodes
from redraft.app import Settings, read_settings, refine
from redraft.app.builtin.gates.programs import schema_critic, sql_critic
from redraft.app.builtin.programs.command import command_critic
from redraft.app.builtin.programs.pytest_critic import pytest_critic
from redraft.app.builtin.programs.ruff import ruff_critic
from redraft.events.backends import open_store
from redraft.events.errors import PlanError
from redraft.events.messages.commands import Refined, StartRun
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import (
    BudgetReached,
    DraftCritiqued,
    EventRef,
    Parent,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Node, Option, Plan, Step
from redraft.events.messages.usage import Usage
from redraft.projections.backends import ReadModels
from redraft.projections.read_models.actor_work import ACTORS, actors
from redraft.projections.read_models.critiques import CRITIQUES, critics
from redraft.projections.record_check.check import check_events
from redraft.projections.run_views.sentences import history
from redraft.projections.run_views.tree import steps, tree

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings(store=f"sqlite:///{tmp_path / 'log.db'}")


@generator
async def write(brief) -> str:
    return "a"


@refiner
async def swap(draft: Draft) -> str:
    return "b" if draft.text == "a" else "a"


@publisher
async def save(draft: Draft) -> str:
    return "here"


def counting(calls: list[str], score: float = 0.5):
    @critic(name="judge")
    async def judge(draft: Draft) -> Critique:
        calls.append(draft.text)
        return Critique(score, suggestions=(f"not {draft.text}",))

    return judge


def flow(*critics, most: int = 4, improver=swap) -> Workflow:
    made = Workflow("again").start_with(write)
    return made.repeat_until("score >= 0.9", max_iterations=most, name="Loop", body=[*critics, improver]).finally_(save)


async def recorded(settings: Settings, workflow: Workflow, **options) -> list[Recorded]:
    result = await refine(workflow, "tides", settings=settings, **options)
    async with open_store(settings.store) as store:
        return list(await store.read(result.run))


def verdicts(events: list[Recorded]) -> list[DraftCritiqued]:
    return [each.data for each in events if isinstance(each.data, DraftCritiqued)]


async def test_a_text_that_comes_back_is_judged_once(settings: Settings):
    calls: list[str] = []
    events = await recorded(settings, flow(step(counting(calls), reuse="run")))
    assert calls == ["a", "b"]
    first, second, *again = verdicts(events)
    versions = [each.version for each in events if isinstance(each.data, DraftCritiqued)]
    assert (first.reused, second.reused) == (None, None)
    run = events[0].run
    assert [each.reused for each in again] == [EventRef(run, versions[n]) for n in (0, 1, 0)]
    assert [each.draft.version for each in again] == [3, 4, 5]
    assert [each.critique for each in again] == [first.critique, second.critique, first.critique]
    assert all(each.usage == Usage() for each in again)
    assert check_events(events) == ()


@pytest.mark.parametrize("reuse", ["run", "always"])
async def test_its_key_does_not_depend_on_how_a_number_is_written(settings: Settings, reuse: str):
    @critic(scale=(1, 10), criteria={"truth": "every claim is right"}, weights={"truth": 2})
    async def judge(draft: Draft) -> dict[str, object]:
        return {"criteria": {"truth": 4}}

    workflow = Workflow("scaled").start_with(write)
    body = [step(judge, reuse=reuse, options={"depth": 2, "heat": 1.0}), swap]
    workflow = workflow.repeat_until("score >= 8 of 10", max_iterations=3, name="Loop", body=body).finally_(save)
    events = await recorded(settings, workflow)
    assert [bool(each.reused) for each in verdicts(events)] == [False, False, True, True]
    assert check_events(events) == ()


async def test_without_it_a_critic_is_asked_each_time(settings: Settings):
    calls: list[str] = []
    events = await recorded(settings, flow(counting(calls)))
    assert calls == ["a", "b", "a", "b", "a"]
    assert not any(each.data.verdict_key for each in events if isinstance(each.data, StepRequested))


async def test_steps_of_a_panel_do_not_share_a_verdict(settings: Settings):
    calls: list[str] = []
    judge = counting(calls)
    panel = parallel("Panel", step(judge, name="one", reuse="run"), step(judge, name="two", reuse="run"))
    events = await recorded(settings, flow(panel))
    assert sorted(calls) == ["a", "a", "b", "b"]
    assert [each.path[-3:] for each in verdicts(events)[-2:]] == ["one", "two"]
    assert check_events(events) == ()


async def test_of_a_panel_that_waits_for_one_it_is_the_first_answer_and_nobody_after_it_is_asked(settings: Settings):
    calls: list[str] = []
    held = asyncio.Event()

    @critic(name="other")
    async def other(draft: Draft) -> Critique:
        await held.wait()
        return Critique(0.6)

    panel = parallel("Panel", step(counting(calls), reuse="run"), other, wait=1)
    events = await recorded(settings, flow(panel))
    assert calls == ["a", "b"]
    asked = [each.data for each in events if isinstance(each.data, StepRequested) and each.data.role == "critic"]
    assert [each.draft.version for each in asked if each.path.endswith("other") and each.draft] == [1, 2]
    assert [each.draft.version for each in verdicts(events)] == [1, 2, 3, 4, 5]
    assert check_events(events) == ()


async def test_a_failed_attempt_is_tried_again_and_not_reused(settings: Settings):
    calls: list[str] = []

    @critic
    async def judge(draft: Draft) -> Critique:
        calls.append(draft.text)
        if len(calls) == 1:
            raise RuntimeError("not now")
        return Critique(0.5)

    events = await recorded(settings, flow(step(judge, reuse="run", retry=Retry(3, 0.0))))
    assert calls == ["a", "a", "b"]
    assert check_events(events) == ()


async def test_a_reused_verdict_costs_nothing(settings: Settings):
    """The budget is for as many calls as there are different texts."""
    calls: list[str] = []

    @critic
    async def judge(draft: Draft, context: Context) -> Critique:
        calls.append(draft.text)
        context.used(Usage(tokens=10, calls=1))
        return Critique(0.5)

    plan = flow(step(judge, reuse="run"), most=3).budget(calls=3)
    events = await recorded(settings, plan)
    assert calls == ["a", "b"]
    assert not [each for each in events if isinstance(each.data, BudgetReached)]
    assert check_events(events) == ()


async def test_stats_count_it_apart(settings: Settings, tmp_path: Path):
    events = await recorded(settings, flow(step(counting([]), reuse="run")))
    async with open_store(settings.store) as store, ReadModels(tmp_path / "views.db", store) as models:
        lines = await actors(await models.of(ACTORS), events[0].run)
        (told,) = await critics(await models.of(CRITIQUES))
    (line,) = [each for each in lines if each.actor == "judge"]
    assert (line.asked, line.done, line.reused) == (2, 2, 3)
    assert told.critiques == 2


async def test_a_fork_takes_again_what_it_repeats_unless_the_actor_is_another(settings: Settings):
    events = await recorded(settings, flow(step(counting([]), reuse="run"), most=2))
    at = [each.version for each in events if isinstance(each.data, DraftCritiqued)][1]
    for changed in (False, True):
        options = {"strict": True} if changed else {}
        start = StartRun("fork", plan_with(events, options), Brief("tides"), parent=Parent(events[0].run, at))
        decided = begin_fork(start, events[:at], START)
        requests = [each for each in decided.events[at:] if isinstance(each, StepRequested)]
        assert requests[0].role == "refiner"
        ref = Refined("fork", requests[0].path, 1, "a")
        after = handle(decided.state, ref, START).events
        (request,) = [each for each in after if isinstance(each, StepRequested) and each.role == "critic"]
        assert bool(request.reused) is not changed


def plan_with(events: list[Recorded], options: dict[str, Option]) -> Plan:
    """The plan of a run with other options of its critic."""
    begun = events[0].data
    assert isinstance(begun, RunStarted)

    def changed(path: str, node: Node) -> Node:
        return replace(node, options=options) if isinstance(node, Step) and node.role == "critic" else node

    return replace(begun.plan, steps=map_nodes(begun.plan.steps, changed))


async def test_it_is_shown(settings: Settings):
    events = await recorded(settings, flow(step(counting([]), reuse="run")))
    told = [line.sentence for line in history(events)]
    first = next(each.version for each in events if isinstance(each.data, DraftCritiqued))
    assert f"critic judge need not be asked to judge draft 3: it has judged the same in event {first}" in told
    assert any(each.endswith(f"as in event {first}: reused at no cost") for each in told)
    leaves = [leaf for leaf in steps(tree(events).branches) if leaf.name == "judge"]
    assert [bool(leaf.reused) for leaf in leaves] == [False, False, True, True, True]


async def test_a_line_by_itself_names_the_critic_whose_verdict_it_is(settings: Settings):
    events = await recorded(settings, flow(step(counting([]), reuse="run")))
    third = next(each for each in events if isinstance(each.data, DraftCritiqued) and each.data.reused)
    assert history((third,))[0].sentence.startswith("critic judge scored draft 3 at 0.50")


async def test_an_untrue_record_is_found(settings: Settings):
    events = await recorded(settings, flow(step(counting([]), reuse="run")))
    place = next(n for n, each in enumerate(events) if isinstance(each.data, DraftCritiqued) and each.data.reused)
    for change in ({"critique": Critique(0.6, critic="judge")}, {"usage": Usage(5)}):
        changed = list(events)
        changed[place] = replace(events[place], data=replace(events[place].data, **change))
        assert "this is not the verdict of event" in str(check_events(changed)), change
    second = {"reused": EventRef(events[0].run, 2)}
    for change, fault in ((second, "has no verdict on what"), ({"verdict_key": "x"}, "is not that of what")):
        changed = list(events)
        changed[place - 1] = replace(events[place - 1], data=replace(events[place - 1].data, **change))
        assert fault in str(check_events(changed)), change


@pytest.mark.parametrize("actor", [pytest_critic, command_critic, ruff_critic, schema_critic, sql_critic])
def test_a_critic_that_looks_at_files_or_programs_is_not_reused_by_other_runs(actor: Critic):
    with pytest.raises(PlanError, match="looks at more than it is given"):
        flow(step(actor, reuse="always", options={"run": ["true"], "schema": "s.json", "tests": ["t.py"]}))
    assert flow(step(actor, reuse="run", options={"run": ["true"], "schema": "s.json", "tests": ["t.py"]}))


def test_it_is_read_from_yaml_and_written_back():
    plan = flow(step(counting([]), reuse="run")).plan
    text = print_plan(plan)
    assert "reuse: run" in text
    assert read_plan(text) == plan


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (lambda: flow(step(counting([]), reuse="ever")), "reuse is 'ever'; write run"),
        (lambda: flow(counting([]), improver=step(swap, reuse="run")), "reuse is for critics, and this is a refiner"),
        (
            lambda: flow(step("judge", role="critic", reuse="run", history=2)),
            "reuse: the history grows with every draft",
        ),
        (
            lambda: flow(step(choose=[counting([]), step("other", role="critic")], reuse="run")),
            "reuse: a step that chooses may ask another actor",
        ),
        (
            lambda: flow(parallel("P", swap, step(swap, name="two"), judge=step(counting([]), reuse="run"))),
            "reuse: a judge compares drafts",
        ),
    ],
)
def test_what_cannot_be_is_refused(made, fault: str):
    with pytest.raises(PlanError) as refused:
        _ = made().plan
    assert fault in str(refused.value)
