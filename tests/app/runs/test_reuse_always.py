"""Verdicts of earlier runs of the store are taken again, proven by the log, and never where they must not be."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from redraft.actors import (
    Context,
    Critique,
    Draft,
    Workflow,
    critic,
    generator,
    parallel,
    publisher,
    refiner,
    step,
)
from redraft.actors.deciding.policy import Policy
from redraft.actors.plans.paths import map_nodes
from redraft.actors.replay.whatif import decide_again, plan_of, what_if
from redraft.actors.runtime.coordinating.recalling import proven_verdict
from redraft.actors.workflow.actor import Hermetic
from redraft.app import Settings, read_settings, refine
from redraft.app.record.auditing.record_faults import check_log, check_run, is_faulty
from redraft.app.record.copying.transfer import RunSelection, export_log, import_archive
from redraft.app.runs.steering import quarantine
from redraft.app.wiring.local import open_local
from redraft.app.wiring.stores import open_store_of
from redraft.events.errors import PlanError
from redraft.events.messages.domain_events import (
    BudgetReached,
    DraftCritiqued,
    EventRef,
    RunQuarantined,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Node, Reuse, Step
from redraft.events.messages.usage import Usage
from redraft.projections.record_check.check import check_events
from redraft.projections.run_views.sentences import history
from redraft.projections.run_views.tree import steps, tree


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


def judging(calls: list[str], score: float = 0.5, version: str = "1", hermetic: Hermetic = True):
    @critic(name="judge", version=version, hermetic=hermetic)
    async def judge(draft: Draft, context: Context) -> Critique:
        calls.append(draft.text)
        context.used(Usage(tokens=10, calls=1))
        return Critique(score, suggestions=(f"not {draft.text}",))

    return judge


def always(calls: list[str], **options):
    return step(judging(calls), reuse="always", **options)


def flow(*critics, most: int = 2, name: str = "Loop") -> Workflow:
    made = Workflow("again").start_with(write)
    return made.repeat_until("score >= 0.9", max_iterations=most, name=name, body=[*critics, swap]).finally_(save)


async def recorded(settings: Settings, workflow: Workflow, brief: str = "tides") -> list[Recorded]:
    result = await refine(workflow, brief, settings=settings)
    async with open_store_of(settings) as store:
        return list(await store.read(result.run))


def verdicts(events: list[Recorded]) -> list[DraftCritiqued]:
    return [each.data for each in events if isinstance(each.data, DraftCritiqued)]


def own_verdict(events: list[Recorded]) -> EventRef:
    """The first verdict of the run."""
    return next(EventRef(each.run, each.version) for each in events if isinstance(each.data, DraftCritiqued))


async def test_a_second_run_takes_the_verdicts_of_the_first(settings: Settings):
    calls: list[str] = []
    first = await recorded(settings, flow(always(calls)))
    second = await recorded(settings, flow(always(calls)))
    assert calls == ["a", "b"]
    taken = verdicts(second)
    assert taken[0].reused == own_verdict(first)
    assert {each.reused.run for each in taken if each.reused} == {first[0].run}
    assert [each.critique for each in taken] == [each.critique for each in verdicts(first)]
    assert all(each.usage.is_nothing for each in taken)
    async with open_store_of(settings) as store:
        assert [each.findings async for each in check_log(store)] == [(), ()]
        assert (await check_run(store, second[0].run)).findings == ()


async def test_another_loop_place_and_plan_takes_them_too(settings: Settings):
    calls: list[str] = []
    await recorded(settings, flow(always(calls)))
    judge = judging(calls)
    mine = step(judge, name="mine", options={"strict": True}, reuse="run")
    panel = parallel("Panel", step(judge, name="other", reuse="always"), mine)
    second = await recorded(settings, flow(panel, name="Elsewhere"))
    assert calls == ["a", "b", "a", "b"], "the other two are of the critic with options of its own"
    assert {each.path.rpartition("/")[2] for each in verdicts(second) if each.reused is None} == {"mine"}
    assert {each.code for each in check_events(second)} == {"unproven"}
    async with open_store_of(settings) as store:
        assert (await check_run(store, second[0].run)).findings == ()


@pytest.mark.parametrize("change", ["options", "version", "brief", "run"])
async def test_another_setting_version_or_brief_is_asked_about(settings: Settings, change: str):
    calls: list[str] = []
    await recorded(settings, flow(always(calls)))
    other = {
        "options": always(calls, options={"strict": True}),
        "version": step(judging(calls, version="2"), reuse="always"),
        "run": step(judging(calls), reuse="run"),
    }
    await recorded(settings, flow(other.get(change, always(calls))), "rain" if change == "brief" else "tides")
    assert calls == ["a", "b", "a", "b"]


@pytest.mark.parametrize("together", ["panel", "row"])
async def test_two_that_judge_together_never_share_a_verdict(settings: Settings, together: str):
    calls: list[str] = []
    await recorded(settings, flow(always(calls)))
    judge = judging(calls)
    two = step(judge, name="one", reuse="always"), step(judge, name="two", reuse="always")
    second = await recorded(settings, flow(parallel("Panel", *two)) if together == "panel" else flow(*two))
    assert calls == ["a", "b", "a", "b"], "the second of the two is asked: the first has the only verdict"
    third = await recorded(settings, flow(*two))
    assert calls == ["a", "b", "a", "b"]
    sources = [each.reused for each in verdicts(third)]
    assert len(set(sources[:2])) == 2
    async with open_store_of(settings) as store:
        for events in (second, third):
            assert (await check_run(store, events[0].run)).findings == ()


async def test_a_verdict_on_more_than_was_given_counts_in_its_own_run_alone(settings: Settings):
    """A plan that is begun without its actors says `always`; the worker, who has the actor, says what it looks at."""
    calls: list[str] = []
    looking = judging(calls, hermetic=lambda options: False)
    plan = flow(step(looking, reuse="run"), most=4).plan
    plan = replace(plan, steps=map_nodes(plan.steps, lambda _, node: reusing(node, "always")))
    runs = []
    async with open_local(settings, [write, swap, save, looking]) as runtime:
        for _ in range(2):
            run = await runtime.client.submit(plan, "tides")
            await runtime.client.wait(run)
            runs.append(list(await runtime.client.history(run)))
        fork = await runtime.client.fork(runs[0][0].run, own_verdict(runs[0]).version)
        await runtime.client.wait(fork)
        forked = list(await runtime.client.history(fork))
    assert calls == ["a", "b", "a", "b", "b"]
    for events in runs:
        assert [each.reused is None for each in verdicts(events)] == [True, True, False, False, False]
        assert {each.reused.run for each in verdicts(events) if each.reused} == {events[0].run}
        assert [each.hermetic for each in verdicts(events) if each.reused is None] == [False, False]
        again = decide_again(events, plan_of(events))
        assert (again.parting, again.ends_at, again.imagined) == (None, None, again.recorded)
    assert [each.reused is None for each in verdicts(forked)] == [True, True, False, False, False]
    async with open_store_of(settings) as store:
        assert [each.findings async for each in check_log(store)] == [(), (), ()]


def reusing(node: Node, reuse: Reuse) -> Node:
    return replace(node, reuse=reuse) if isinstance(node, Step) and node.role == "critic" else node


async def test_a_run_that_begins_with_its_actors_is_refused(settings: Settings):
    looking = step(judging([], hermetic=lambda options: "model" in options), reuse="always")
    with pytest.raises(PlanError, match="Loop/judge: reuse is always, but judge looks at more than it is given"):
        await refine(flow(looking), "tides", settings=settings)
    named = step(judging([], hermetic=lambda options: "model" in options), reuse="always", options={"model": "m"})
    assert await refine(flow(named), "tides", settings=settings)


async def test_the_budget_is_for_those_who_are_asked(settings: Settings):
    calls: list[str] = []
    await recorded(settings, flow(always(calls)))
    second = await recorded(settings, flow(always(calls)).budget(calls=1))
    assert not [each for each in second if isinstance(each.data, BudgetReached)]
    assert sum((each.usage for each in verdicts(second)), Usage()).is_nothing


async def test_a_quarantined_run_gives_none(settings: Settings):
    calls: list[str] = []
    first = await recorded(settings, flow(always(calls)))
    await quarantine(settings, first[0].run, "odd", "ann")
    await recorded(settings, flow(always(calls)))
    assert calls == ["a", "b", "a", "b"]


@pytest.mark.parametrize("sealed_one", ["first", "second"])
async def test_an_encrypted_run_gives_none_and_takes_none(tmp_path: Path, sealed_one: str):
    store, calls = f"sqlite:///{tmp_path / 'log.db'}", list[str]()
    plain = read_settings(store=store, encrypt_new_runs=False)
    sealed = read_settings(store=store, encrypt_new_runs=True, encrypt_key=b64encode(b"k" * 32).decode())
    if sealed_one == "first":
        one = await recorded(sealed, flow(always(calls), most=4))
        assert calls == ["a", "b"], "within its run it takes them"
        assert all(each.encrypted for each in one if isinstance(each.data, DraftCritiqued))
        await recorded(sealed, flow(always(calls)))
    else:
        await recorded(plain, flow(always(calls)))
        await recorded(sealed, flow(always(calls)))
    assert calls == ["a", "b", "a", "b"]


async def test_a_run_without_its_source_is_imported_and_said_to_be_unproven(settings: Settings, tmp_path: Path):
    calls: list[str] = []
    first = await recorded(settings, flow(always(calls)))
    second = await recorded(settings, flow(always(calls)))
    with (tmp_path / "archive").open("wb") as file:
        async with open_store_of(settings) as store:
            await export_log(store, RunSelection(runs=frozenset({second[0].run})), file, datetime.now(UTC))
    other = read_settings(store=f"sqlite:///{tmp_path / 'other.db'}")
    async with open_store_of(other) as store:
        await import_archive(store, tmp_path / "archive")
        checked = await check_run(store, second[0].run)
        assert {each.code for each in checked.findings} == {"unproven"}
        assert f"of run {first[0].run} is not proven" in checked.findings[0].message
        assert not is_faulty(checked)
    assert (await recorded(other, flow(always(calls))))[0].run
    assert calls == ["a", "b", "a", "b"], "nothing is taken from an archive: somebody else may have written it"


async def test_it_is_shown_and_decided_again(settings: Settings):
    first = await recorded(settings, flow(always([])))
    second = await recorded(settings, flow(always([])))
    source = own_verdict(first)
    said = f"as in event {source.version} of run {source.run}: reused at no cost"
    assert any(line.sentence.endswith(said) for line in history(second))
    leaf = next(leaf for leaf in steps(tree(second).branches) if leaf.name == "judge")
    assert (leaf.reused, leaf.reused_from) == (source.version, source.run)
    again = decide_again(second, plan_of(second))
    assert (again.parting, again.ends_at, again.imagined) == (None, None, again.recorded)


@pytest.mark.parametrize("first", [True, False])
async def test_a_verdict_that_a_worker_gave_first_is_given_by_a_worker_again(settings: Settings, first: bool):
    """The third draft is the first one again: its verdict is taken from this run, or from an earlier one."""
    if not first:
        await recorded(settings, Workflow("again").start_with(write, always([])))
    events = await recorded(settings, flow(always([]), most=6))
    again = decide_again(events, plan_of(events))
    assert again.recorded.tokens == (20 if first else 10)
    assert (again.parting, again.ends_at, again.imagined) == (None, None, again.recorded)


async def test_two_critics_of_which_one_takes_verdicts_again_are_asked_as_recorded(settings: Settings):
    judge = judging([])
    panel = parallel("Panel", step(judge, reuse="always"), step(judge, name="other", options={"strict": True}))
    events = await recorded(settings, flow(panel, most=4))
    again = decide_again(events, plan_of(events))
    assert (again.parting, again.ends_at, again.imagined) == (None, None, again.recorded)


async def test_a_verdict_that_is_asked_for_sooner_than_it_was_is_still_the_workers(settings: Settings):
    events = await recorded(settings, flow(always([]), most=6))
    again = what_if(events, Policy(max_iterations=3))
    assert (again.ends_at, again.imagined.tokens) == (None, 20)


async def test_an_untrue_source_is_found(settings: Settings):
    first = await recorded(settings, flow(always([])))
    second = await recorded(settings, flow(always([])))
    place = next(n for n, each in enumerate(second) if isinstance(each.data, DraftCritiqued))
    name = first[0].run
    assert check_events(second, {name: first}) == ()

    def found(here: list[Recorded], there: list[Recorded]) -> str:
        return str([each.message for each in check_events(here, {name: there})])

    def at(n: int, events: list[Recorded], **changes) -> list[Recorded]:
        return [*events[:n], replace(events[n], data=replace(events[n].data, **changes)), *events[n + 1 :]]

    source = own_verdict(first).version - 1
    other = Critique(0.6, critic="judge")
    assert "this is not the verdict there" in found(second, at(source, first, critique=other))
    assert "no verdict of its own" in found(second, at(source, first, reused=EventRef("x", 2)))
    assert "no verdict of its own" in found(second, at(source - 1, first, verdict_key="x"))
    assert "no verdict of its own" in found(second, first[:source])
    assert "looked at more than it was given there" in found(second, at(source, first, hermetic=False))
    assert "encrypted" in found(second, [replace(each, encrypted=True) for each in first])
    late = [replace(each, position=10_000, time=second[-1].time.replace(year=2999)) for each in first]
    assert "recorded later" in found(second, late)
    dear = at(place, second, usage=Usage(5))
    assert "at no cost" in found(dear, first)
    run_only = plan_changed(second)
    assert "takes no verdict of another run" in found(run_only, first)


def plan_changed(events: list[Recorded]) -> list[Recorded]:
    """The same record, of a plan with `reuse: run`."""
    begun = events[0].data
    assert isinstance(begun, RunStarted)

    plan = replace(begun.plan, steps=map_nodes(begun.plan.steps, lambda _, node: reusing(node, "run")))
    return [replace(events[0], data=replace(begun, plan=plan)), *events[1:]]


async def test_only_what_the_log_proves_is_taken(settings: Settings):
    events = await recorded(settings, flow(always([])))
    source = own_verdict(events).version
    asked = next(each.data for each in events if isinstance(each.data, StepRequested) and each.data.verdict_key)
    key = asked.verdict_key
    assert proven_verdict(events, source, key) == verdicts(events)[0].critique
    assert proven_verdict(events, source, "another") is None
    assert proven_verdict(events, source - 1, key) is None
    assert proven_verdict(events, len(events) + 1, key) is None
    looking = [
        replace(each, data=replace(each.data, hermetic=False)) if each.version == source else each for each in events
    ]
    assert proven_verdict(looking, source, key) is None
    assert proven_verdict(events[:2] + events[3:], source, key) is None, "it has a gap"
    aside = replace(events[-1], version=len(events) + 1, previous=events[-1].hash, data=RunQuarantined("ann", "odd"))
    assert proven_verdict([*events, aside], source, key) is None
    repeated = [replace(each, repeats="x") if each.version == source else each for each in events]
    assert proven_verdict(repeated, source, key) is None
    assert proven_verdict([replace(each, encrypted=True) for each in events], source, key) is None
