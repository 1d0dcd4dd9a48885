"""What `redraft run` was asked to do: a plan, its actors, and a brief or a run to go on with."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from redraft.actors.evolve import fold
from redraft.actors.pinning import pinned
from redraft.actors.plan_paths import steps_in
from redraft.actors.roles import Actor
from redraft.app.briefs import check_tested, read_brief
from redraft.app.cli.faults import say
from redraft.app.cli.reading import refuse_missing
from redraft.app.client import Client
from redraft.app.compose import open_log
from redraft.app.models import check_models, seats_of, with_model
from redraft.app.outlets import Outlets, check_out, publish_to, refuse_folder
from redraft.app.prepare import prepare
from redraft.app.settings import Settings
from redraft.app.sources import Outlet, Source, override, own_actors, read_source
from redraft.app.staff import staff
from redraft.events.content import Brief
from redraft.events.domain_events import Parent, RunEnded, RunStarted
from redraft.events.envelope import Recorded
from redraft.events.errors import InputError
from redraft.events.plan import Plan, Step
from redraft.events.tags import checked_tags
from redraft.projections.run_list import find_run


@dataclass(frozen=True, slots=True)
class Given:
    """The words and options of `redraft run`, as they were typed."""

    words: Sequence[str] = ()
    workflow: str = ""
    actors: str = ""
    as_text: bool = False
    out: str = ""
    until: str = ""
    max_iterations: int | None = None
    budget: str = ""
    tests: Sequence[str] = ()
    key: str = ""
    tags: Sequence[str] = ()
    resume: str = ""
    trust: bool = False
    model: str = ""
    watch: bool = False
    batch: str = ""
    concurrency: int = 16


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done. `brief` is None for a `run` of which the `past` is recorded; `files` name its functions.

    A fork has a `parent`: its run, and the version at which it is forked.
    """

    plan: Plan
    actors: tuple[Actor, ...]
    brief: Brief | None
    key: str = ""
    run: str = ""
    past: tuple[Recorded, ...] = ()
    files: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    parent: Parent | None = None

    @property
    def has_ended(self) -> bool:
        return any(isinstance(event.data, RunEnded) for event in self.past[-2:])


def new_order(given: Given, outlets: Outlets, limit: int) -> Order:
    """A new run. `limit` is the largest brief in bytes. Raises InputError for all that is wrong with what was given."""
    if given.trust:
        raise InputError("--trust is for --resume: a plan that you name here is trusted as it is; leave it out")
    name, source = _words(given)
    tags = checked_tags(given.tags)
    out = check_out(Path(given.out)) if given.out else None
    brief = read_brief(source, sys.stdin.buffer, as_text=given.as_text, limit=limit)
    chosen = name or ("code" if brief.media_type == "text/x-python" else "prose")
    publish: Outlet = "file" if out else "stdout"
    found = read_source(chosen, actors=given.actors, tests=given.tests, publish=publish, model=given.model)
    check_tested(brief, given.tests)
    plan, actors, _ = _staffed(given, found, outlets, brief)
    return Order(plan, actors, brief, given.key, files=_files(given, chosen, found), tags=tags)


def prepared(given: Given, name: str, outlets: Outlets, longest: Brief) -> tuple[Plan, tuple[Actor, ...], Plan]:
    """The plan of a workflow with the versions of its actors, the actors, and the plan as it is written.

    `longest` is the longest of its briefs.
    """
    publish: Outlet = "stdout"
    if given.out:
        check_out(Path(given.out))
        publish = "file"
    found = read_source(name, actors=given.actors, tests=given.tests, publish=publish, model=given.model)
    return _staffed(given, found, outlets, longest)


def _staffed(given: Given, found: Source, outlets: Outlets, brief: Brief) -> tuple[Plan, tuple[Actor, ...], Plan]:
    refuse_folder(found.plan, found.actors)
    plan = override(found.plan, given.until, given.max_iterations, given.budget)
    if given.out:
        plan = publish_to(plan, Path(given.out))
    written = with_model(plan, given.model, outlets.models.prices)
    own = seats_of(found.actors)
    plan = prepare(plan, brief, outlets.models, own, given.model)
    actors = staff(plan, found.actors, outlets)
    if note := check_models(plan, outlets.models, own):
        say(note)
    return pinned(plan, actors), actors, written


def resumed_order(given: Given, outlets: Outlets, settings: Settings) -> Order:
    """The run that is to go on, with the plan it began with. Raises NoSuchRun, InputError, StoreError."""
    _refuse_changes(given)
    refuse_missing(settings.store)
    past, is_foreign = asyncio.run(_past(settings, given.resume))
    begun = next(event.data for event in past if isinstance(event.data, RunStarted))
    order = Order(begun.plan, (), None, run=past[0].run, past=past)
    if order.has_ended:
        return order
    if fold(event.data for event in past).paused:
        raise InputError(f"run {order.run} is paused; first: redraft resume {order.run}")
    if is_foreign and not given.trust:
        refuse_foreign(order.run, begun.plan)
    own = read_source(given.workflow).actors if given.workflow else ()
    mine = [*own, *own_actors(given.actors)]
    actors = staff(begun.plan, mine, outlets)
    check_models(begun.plan, outlets.models, seats_of(mine))
    return Order(begun.plan, actors, None, run=order.run, past=past, files=functions(given.workflow, given.actors))


async def begun(client: Client, order: Order, by: str = "redraft run") -> str:
    """Returns the run that the order is about, begun if it is a new one."""
    if order.brief is None:
        return order.run
    if order.parent is None:
        return await client.submit(order.plan, order.brief, key=order.key, tags=order.tags, by=by)
    return await client.fork(
        order.parent.run,
        order.parent.version,
        plan=order.plan,
        brief=order.brief,
        key=order.key,
        tags=order.tags,
        by="redraft fork",
    )


def refuse_foreign(run: str, plan: Plan) -> NoReturn:
    """Raises InputError, which tells what the plan of an imported run would have done here."""
    does = ", ".join(dict.fromkeys(_deed(step) for _, step in steps_in(plan.steps)))
    raise InputError(
        f"run {run} was imported, and its plan is somebody else's: going on with it does here what that says ({does}); "
        f"look at it with `redraft show {run}`, and give --trust if you would have written it"
    )


def _deed(step: Step) -> str:
    """Returns who works, and what it runs or where: `critic command sh -c make`, `publisher file /home/a b.md`."""
    told = [step.options[name] for name in ("run", "folder", "project", "path", "url") if name in step.options]
    words = [shlex.join(map(str, each)) if isinstance(each, list | tuple) else str(each) for each in told]
    return " ".join([step.role, step.actor, *words])


async def _past(settings: Settings, text: str) -> tuple[tuple[Recorded, ...], bool]:
    """What is recorded of a run, and whether that was imported."""
    async with open_log(settings) as log:
        past = await log.client.history((await find_run(log.views, text)).run)
        return past, await log.store.is_imported(past[0].run)


def _words(given: Given) -> tuple[str, str]:
    """The workflow, empty when none is named, and the source."""
    match given.words:
        case [source]:
            return given.workflow, source
        case [workflow, source] if not given.workflow:
            return workflow, source
        case []:
            raise InputError("nothing to refine is given; name a file, - for standard input, or a text in quotes")
        case _:
            first = " ".join(given.words[:2])
            raise InputError(f"one source is due, not {len(given.words)} words; put a text in quotes: '{first} …'")


def _refuse_changes(given: Given) -> None:
    changes = {
        "SOURCE": bool(given.words),
        "--out": bool(given.out),
        "--until": bool(given.until),
        "--max-iterations": given.max_iterations is not None,
        "--budget": bool(given.budget),
        "--tests": bool(given.tests),
        "--key": bool(given.key),
        "--model": bool(given.model),
        "--text": given.as_text,
        "--tag": bool(given.tags),
    }
    for name in (name for name, there in changes.items() if there):
        raise InputError(f"a run that goes on keeps its brief and its plan; leave {name} out, or start a new run")


def _files(given: Given, chosen: str, found: Source) -> tuple[str, ...]:
    return functions("" if found.shipped or not found.actors else chosen, given.actors)


def functions(workflow: str, actors: str) -> tuple[str, ...]:
    """The options that name the files of the plan's own functions, fit to be typed again."""
    options = {"--workflow": workflow, "--actors": actors}
    return tuple(f"{option} {shlex.quote(value)}" for option, value in options.items() if value)
