"""Prepares what `redraft run`, `submit` and `fork` ask for: a plan, its actors, and a brief or a run to resume."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import msgspec

from redraft.actors.plans.paths import steps_in
from redraft.actors.workflow.actor import Actor, ActorKey
from redraft.actors.workflow.workflow import pin_versions
from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.options import ForkOptions, RunOptions, name_of
from redraft.app.cli.shared.reading import events_at, events_of, refuse_missing
from redraft.app.client.client import Client
from redraft.app.client.result import Change, check_values, fork_of, state_at
from redraft.app.models.configuration import Models, actor_keys, check_models, check_money, with_model
from redraft.app.record.waiting import awaits_nothing
from redraft.app.settings.settings import Settings
from redraft.app.subscribing.misfits import folded
from redraft.app.wiring.local import open_readonly
from redraft.app.workflows.actor_registry import build_actor_registry
from redraft.app.workflows.briefs import check_pytest, check_tested, read_brief, workflow_for
from redraft.app.workflows.publish_targets import ActorEnvironment, check_out, guard_source, publish_to, refuse_folder
from redraft.app.workflows.sources import (
    SHIPPED,
    PublishTarget,
    Source,
    actors_beside,
    changed_plan,
    override,
    own_actors,
    prepare,
    read_source,
)
from redraft.app.workflows.state_values import read_state, split_state, with_state
from redraft.events.errors import InputError, PlanError
from redraft.events.messages.commands import StartRun
from redraft.events.messages.content import Brief, Files, digest
from redraft.events.messages.domain_events import Parent, RunEnded, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.folders import FOLDER
from redraft.events.messages.plan import Plan, Step
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.run_state import Values
from redraft.events.messages.tags import check_tags
from redraft.projections.read_models.runs_query import find_run


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to start or to resume. `brief` is None for a `run` to resume, with its events in `past`.

    `files` are those that its functions come from, and `actor_files` those of its actors that are not loaded here.

    A fork has a `parent`: its run, and the version at which it is forked. `state` are the values that it changes.
    """

    plan: Plan
    actors: tuple[Actor, ...]
    brief: Brief | None
    key: str = ""
    run: str = ""
    past: tuple[Recorded, ...] = ()
    files: Files = Files()  # noqa: RUF009 - frozen
    tags: tuple[str, ...] = ()
    parent: Parent | None = None
    state: Values = field(default_factory=dict)
    actor_files: Mapping[ActorKey, str] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        return any(isinstance(event.data, RunEnded) for event in self.past[-2:])


def new_request(given: RunOptions, environment: ActorEnvironment, limit: int) -> RunRequest:
    """Returns a new run.

    `limit` is the largest brief in bytes. Raises InputError for options or a brief that are wrong.
    """
    if given.trust:
        raise InputError("--trust is for --resume: a plan that you name here is trusted as it is; leave it out")
    name, source = _words(given)
    tags = check_tags(given.tag or ())
    values = read_state(given.settings)
    brief = with_state(read_brief(source, sys.stdin.buffer, as_text=given.text, limit=limit), values)
    out = check_out(Path(given.out), several=brief.media_type == FOLDER) if given.out else None
    chosen = name or workflow_for(brief)
    publish: PublishTarget = "file" if out else "stdout"
    found = read_source(chosen, actors=given.actors, tests=given.tests, publish=publish, model=given.changes.model)
    check_tested(brief, given.tests)
    if given.tests:
        check_pytest()
    plan, actors, _ = _prepare_with_actors(given, found, environment, brief)
    check_values(plan, brief.state)
    plan = guard_source(plan, found.actors, brief.source)
    files = files_of(chosen, given.actors, found)
    return RunRequest(plan, actors, brief, given.key or "", files=files, tags=tags)


def prepare_batch(
    given: RunOptions, name: str, environment: ActorEnvironment, longest: Brief
) -> tuple[Plan, tuple[Actor, ...], Plan, Files]:
    """The plan of a workflow with the versions of its actors, the actors, the plan as it is written, and its files.

    `longest` is the longest of its briefs.
    """
    publish: PublishTarget = "stdout"
    if given.out:
        check_out(Path(given.out))
        publish = "file"
    found = read_source(name, actors=given.actors, tests=given.tests, publish=publish, model=given.changes.model)
    return *_prepare_with_actors(given, found, environment, longest), files_of(name, given.actors, found)


def _prepare_with_actors(
    given: RunOptions, found: Source, environment: ActorEnvironment, brief: Brief
) -> tuple[Plan, tuple[Actor, ...], Plan]:
    plan = _change_plan(given, found)
    written = with_model(plan, given.changes.model, environment.models.prices)
    own = actor_keys(found.actors)
    plan = prepare(plan, brief, environment.models, own, given.changes.model)
    actors = build_actor_registry(plan, found.actors, environment)
    if note := check_models(plan, environment.models, own):
        say(note)
    return pin_versions(plan, actors), actors, written


def _change_plan(given: RunOptions, found: Source) -> Plan:
    """Returns the plan with what the options change in it. Raises InputError, also for a folder nobody may write."""
    refuse_folder(found.plan, found.actors)
    plan = override(found.plan, given.changes.until, given.changes.max_iterations, given.changes.budget)
    return publish_to(plan, Path(given.out).absolute()) if given.out else plan


def remote_request(given: RunOptions, settings: Settings) -> RunRequest:
    """Returns a new run for a deployment, whose workers have its actors and models. Raises InputError."""
    tags = check_tags(given.tag or ())
    workflow, source = given.words
    values = read_state(given.settings)
    brief = with_state(read_brief(source, sys.stdin.buffer, as_text=given.text, limit=settings.max_draft_bytes), values)
    found = read_source(workflow, tests=given.tests, model=given.changes.model, complete=True)
    check_tested(brief, given.tests)
    models, own = Models(prices=settings.model_prices), actor_keys(found.actors)
    plan = prepare(_change_plan(given, found), brief, models, own, given.changes.model)
    check_values(plan, brief.state)
    if note := check_money(plan, models, own):
        say(note)
    here = ActorEnvironment(sys.stdout, Path.cwd())
    actors = build_actor_registry(plan, (), here) if found.shipped else found.actors
    files = dict.fromkeys(own, workflow.partition(":")[0])
    return RunRequest(pin_versions(plan, actors), (), brief, given.key or "", tags=tags, actor_files=files)


def resume_request(given: RunOptions, environment: ActorEnvironment, settings: Settings) -> RunRequest:
    """Returns the run to resume, with the plan it began with. Raises NoSuchRun, InputError, StoreError."""
    _refuse_changes(given)
    refuse_missing(settings.store)
    past, is_foreign = asyncio.run(_read_past(settings, given.resume))
    begun = next(event.data for event in past if isinstance(event.data, RunStarted))
    request = RunRequest(begun.plan, (), None, run=past[0].run, past=past)
    if request.has_ended:
        return request
    state = folded(past)
    if state.paused:
        raise InputError(f"run {request.run} is paused; first: redraft resume {request.run}")
    if awaits_nothing(state):
        raise InputError(
            f"run {request.run} was cut off after event {len(past)} ({past[-1].name}): it has not ended, and waits for "
            "nothing; import an archive that has the whole run, or go on in a new one: "
            f"redraft fork {request.run} --at {len(past)}"
        )
    if is_foreign and not given.trust:
        _refuse_foreign(request.run, begun.plan)
    mine = _own_actors(given, Files() if is_foreign else begun.files)
    actors = build_actor_registry(begun.plan, mine, environment)
    check_models(begun.plan, environment.models, actor_keys(mine))
    return RunRequest(begun.plan, actors, None, run=request.run, past=past)


def fork_request(given: ForkOptions, environment: ActorEnvironment, settings: Settings) -> RunRequest:
    """Returns a fork for this process to work on. Raises NoSuchRun, StoreError, and InputError for what was given."""
    forked = _read_forked(given, settings)
    named = bool(given.workflow or given.actors)
    files = files_of(given.workflow, given.actors) if named else _files_begun_with(forked)
    mine = _own_actors(given, files)
    own = actor_keys(mine)
    start = _start_of(given, settings, forked, environment.models, own)
    several = start.brief.media_type == FOLDER
    plan = publish_to(start.plan, check_out(Path(given.out), several=several)) if given.out else start.plan
    actors = build_actor_registry(plan, mine, environment)
    check_models(plan, environment.models, own)
    return RunRequest(
        pin_versions(plan, actors),
        actors,
        start.brief,
        start.key,
        files=files,
        tags=start.tags,
        parent=start.parent,
        state=start.state,
    )


def remote_fork(given: ForkOptions, settings: Settings) -> RunRequest:
    """Returns a fork for a deployment to work on. Raises NoSuchRun, StoreError, InputError."""
    elsewhere = {"--out": given.out, "--workflow": given.workflow, "--actors": given.actors}
    for name in (name for name, value in elsewhere.items() if value):
        raise InputError(f"{name} is for a fork in this process; leave it out, or give --bus local:")
    start = _start_of(given, settings, _read_forked(given, settings), Models(prices=settings.model_prices))
    return RunRequest(start.plan, (), start.brief, start.key, tags=start.tags, parent=start.parent, state=start.state)


@dataclass(frozen=True, slots=True)
class _Forked:
    """The run to fork, all its events, how many of them the fork begins with, and whether it was imported."""

    past: Sequence[Recorded]
    at: int
    is_foreign: bool


def _read_forked(given: ForkOptions, settings: Settings) -> _Forked:
    refuse_missing(settings.store)
    return asyncio.run(_read_forked_past(settings, given))


def _files_begun_with(forked: _Forked) -> Files:
    """Returns the files that a run began with; those of an imported run are never loaded unasked."""
    begun = forked.past[0].data
    return begun.files if isinstance(begun, RunStarted) and not forked.is_foreign else Files()


def _start_of(
    given: ForkOptions,
    settings: Settings,
    forked: _Forked,
    models: Models,
    own: frozenset[ActorKey] = frozenset(),
) -> StartRun:
    """Returns the message that begins the fork, with its plan as it is kept and no run id yet. Nothing is recorded."""
    past, at = forked.past, forked.at
    tags = check_tags(given.tag) if given.tag else None
    brief = None
    if given.brief:
        brief = read_brief(given.brief, sys.stdin.buffer, as_text=None, limit=settings.max_draft_bytes)
    state = state_at(past, at)
    if forked.is_foreign and not given.trust:
        _refuse_foreign(past[0].run, state.plan)
    values, settings_of_plan = split_state(given.settings)
    plan = changed_plan(state, settings_of_plan, brief, models, own)
    return fork_of(past, at, "", given.key or "", Change(plan, brief, tags, values))


async def _read_forked_past(settings: Settings, given: ForkOptions) -> _Forked:
    if not given.at.strip():
        raise InputError("--at is empty; give the number of an event, or a time")
    async with open_readonly(settings) as log:
        upto = await events_at(log, given.run, given.at, strange=True)
        past = await events_of(log, given.run, strange=True)
        return _Forked(past, len(upto), await log.store.is_imported(past[0].run))


def _own_actors(given: RunOptions | ForkOptions, files: Files) -> Sequence[Actor]:
    """Returns the user's own actors: of the files that are named, or else of those that the run began with.

    Says so when the plan in the file is another now. The files of an imported run are never loaded unasked.
    """
    named = bool(given.workflow or given.actors)
    workflow, actors = (given.workflow, given.actors) if named else (files.workflow, files.actors)
    for target in (workflow, actors) if not named else ():
        file = target.partition(":")[0]
        if file and not Path(file).is_file():
            remedy = "name the file with --workflow or --actors"
            raise InputError(f"{file}, which the run began with, is not there; {remedy}")
    if not workflow:
        return own_actors(actors)
    try:
        found = read_source(workflow, actors=actors)
    except PlanError:  # what its actors declare now does not fit the plan in the file; the run has its own
        changed, mine = workflow not in SHIPPED, actors_beside(workflow, actors)
    else:
        changed, mine = not found.shipped and _digest_of(found.plan) != files.plan, found.actors
    if changed and files.plan not in ("", ERASED):
        say(f"{workflow}: the plan was changed since the run began; the run goes on with the plan that it began with")
    return mine


async def begin_run(client: Client, request: RunRequest, by: str) -> tuple[str, StartRun | None]:
    """Returns the run that the request is about, and the command that began it if it is a new one."""
    if request.brief is None:
        return request.run, None
    sent: list[StartRun] = []
    if request.parent is None:
        run = await client.submit(
            request.plan,
            request.brief,
            key=request.key,
            tags=request.tags,
            by=by,
            files=request.files,
            sent=sent.append,
        )
        return run, sent[0]
    run = await client.fork(
        request.parent.run,
        request.parent.version,
        plan=request.plan,
        brief=msgspec.structs.replace(request.brief, state={}),  # its values are the parent's, and changed since
        key=request.key,
        tags=request.tags,
        state=request.state,
        author=name_of(""),
        by="redraft fork",
        files=request.files,
        sent=sent.append,
    )
    return run, sent[0]


def _refuse_foreign(run: str, plan: Plan) -> NoReturn:
    """Raises InputError that lists what the plan of an imported run would do on this machine."""
    does = ", ".join(dict.fromkeys(_describe_step(step) for _, step in steps_in(plan.steps)))
    raise InputError(
        f"run {run} was imported, and its plan was written by somebody else: if it goes on, this machine does what "
        f"that plan says ({does}); look at it with `redraft show {run}`, and give --trust if you accept this"
    )


def _describe_step(step: Step) -> str:
    """Returns who works, and what it runs or where: `critic command sh -c make`, `publisher file /home/a b.md`."""
    values = [step.options[name] for name in ("run", "folder", "project", "path", "url") if name in step.options]
    words = [shlex.join(map(str, each)) if isinstance(each, list | tuple) else str(each) for each in values]
    return " ".join([step.role, step.actor, *words])


async def _read_past(settings: Settings, text: str) -> tuple[tuple[Recorded, ...], bool]:
    """Returns the events of a run, and whether it was imported."""
    async with open_readonly(settings) as log:
        past = await log.client.history((await find_run(log.views, text)).run)
        return past, await log.store.is_imported(past[0].run)


def _words(given: RunOptions) -> tuple[str, str]:
    """Returns the workflow, empty when none is named, and the source."""
    match given.words:
        case [source]:
            return given.workflow, source
        case [workflow, source] if not given.workflow:
            return workflow, source
        case []:
            raise InputError("there is no source; name a file, - for standard input, or a text in quotes")
        case _:
            first = " ".join(given.words[:2])
            raise InputError(f"give one source, not {len(given.words)} words; put a text in quotes: '{first} …'")


def _refuse_changes(given: RunOptions) -> None:
    changes = {
        "SOURCE": bool(given.words),
        "--out": bool(given.out),
        "--until": bool(given.changes.until),
        "--max-iterations": given.changes.max_iterations is not None,
        "--budget": bool(given.changes.budget),
        "--tests": bool(given.tests),
        "--key": bool(given.key),
        "--model": bool(given.changes.model),
        "--text": given.text,
        "--tag": bool(given.tag),
        "--set": bool(given.settings),
    }
    for name in (name for name, there in changes.items() if there):
        raise InputError(f"a resumed run keeps its brief and its plan; leave {name} out, or start a new run")


def files_of(workflow: str, actors: str, found: Source | None = None) -> Files:
    """Returns the files that a run's functions come from, with whole paths, and the digest of its plan as written."""
    file, colon, name = workflow.partition(":")
    own = bool(workflow) and not (found and found.shipped)
    return Files(
        f"{Path(file).resolve()}{colon}{name}" if own else "",
        str(Path(actors).resolve()) if actors else "",
        _digest_of(found.plan) if found and own else "",
    )


def _digest_of(plan: Plan) -> str:
    return digest(msgspec.json.encode(plan).decode())
