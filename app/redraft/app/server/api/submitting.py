"""Beginning runs: one, many, or a fork of another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec
from litestar import Response, post
from litestar.params import JSONBody

from redraft.actors.plans.paths import steps_in
from redraft.actors.workflow.workflow import pin_versions
from redraft.app.client.result import Change, check_values, fork_of, state_at
from redraft.app.models.configuration import Models, actor_keys, check_models, check_money, models_of
from redraft.app.record.past import events_at
from redraft.app.runs.refine import Item, key_of, seed_items
from redraft.app.server.access.identity import Asks, Identity
from redraft.app.server.api.answers import LATER, answer, beside
from redraft.app.server.api.bodies import BatchSubmission, BriefText, Forking, Submission
from redraft.app.server.api.parameters import Key, RunPath
from redraft.app.server.problems import Refused
from redraft.app.server.service import Serves, Service
from redraft.app.settings.settings import LOCAL
from redraft.app.workflows.run_settings import ENDING_KEYS, LOOP_KEYS
from redraft.app.workflows.sources import Source, changed_plan, override, prepare
from redraft.app.workflows.state_values import split_state, with_state
from redraft.events.errors import InputError
from redraft.events.messages.commands import StartRun
from redraft.events.messages.content import Brief, check_brief
from redraft.events.messages.plan import Plan
from redraft.events.messages.tags import check_tags

PATIENCE: Final = 10.0
"""Seconds to wait until a run that was submitted is in the record, and can be looked at."""

_HARMLESS: Final = frozenset({*LOOP_KEYS, "on_failure", "timeout", "queue_wait", "model"}) - {*ENDING_KEYS}
"""The settings of a fork that cannot have a worker do something else on its machine, nor pass people over."""


class Begun(msgspec.Struct, frozen=True):
    """A run that was begun, or that had been with this key. `recorded`: it can be looked at now."""

    run: str
    recorded: bool = True


@post("/runs", answer=Begun, also=LATER, status_code=201, summary="Begin a run")
async def submit(service: Serves, identity: Asks, data: JSONBody[Submission], key: Key = None) -> Response[bytes]:
    """Begins a run of a workflow that this server offers; with the same `Idempotency-Key` it is the same run."""
    brief = with_state(_brief(service, data.brief), data.state)
    plan = await beside(lambda: _plan(service, data, brief))
    tags = check_tags(data.tags)
    named = _key(key)
    await service.runtime.store.require_sealing()
    run = await service.runtime.client.submit(plan, brief, key=named, tags=tags, by=identity.signature)
    return _answer_begun(await _begun(service, StartRun(run, plan, brief, named, tags)))


@post("/batches", answer=list[Begun], also=LATER, status_code=201, summary="Begin many runs")
async def submit_batch(
    service: Serves, identity: Asks, data: JSONBody[BatchSubmission], key: Key = None
) -> Response[bytes]:
    """Begins a run for each brief. Sent again, the same body begins no more; an `Idempotency-Key` tells two apart."""
    given = (_brief(service, each, f"brief {number}") for number, each in enumerate(data.briefs, 1))
    briefs = [with_state(brief, data.state) for brief in given]
    longest = max(briefs, key=lambda each: len(each.text))
    plan, tags = await beside(lambda: _plan(service, data, longest)), check_tags(data.tags)
    for brief in briefs:
        check_values(plan, brief.state)
    items = seed_items([Item(number, str(number), brief, tags) for number, brief in enumerate(briefs, 1)])
    await service.runtime.store.require_sealing()
    begun = [await _submit_item(service, identity, plan, item, _key(key)) for item in items]
    recorded = await _recorded(service, begun)
    return answer([Begun(run, run in recorded) for run in begun], 201 if recorded.issuperset(begun) else 202)


async def _submit_item(service: Service, identity: Identity, plan: Plan, item: Item, key: str) -> str:
    own = key_of(plan, item, key)
    return await service.runtime.client.submit(plan, item.brief, key=own, tags=item.tags, by=identity.signature)


@post("/runs/{run:str}/fork", answer=Begun, also=LATER, status_code=201, summary="Fork a run")
async def fork(
    service: Serves, identity: Asks, run: RunPath, data: JSONBody[Forking], key: Key = None
) -> Response[bytes]:
    """Begins a run with another's history up to an event. Nothing that was done by then is done again."""
    return _answer_begun(await begin_fork(service, identity, run, data, key))


async def begin_fork(service: Service, identity: Identity, run: str, data: Forking, key: str | None = None) -> Begun:
    """Begins a fork of the run that a text means; returns it once it can be looked at. Raises Refused, InputError."""
    _refuse_harm(identity, data)
    runtime = service.runtime
    upto = await events_at(runtime, run, str(data.at), strange=True)
    past = await runtime.client.history(upto[0].run)
    if not data.trust and await runtime.store.is_imported(past[0].run):
        raise InputError(f"run {past[0].run} was imported, and its plan is somebody else's; look at it, and give trust")
    brief = None if data.brief is None else _brief(service, data.brief)
    models, (values, settings) = models_of(service.settings), split_state(data.settings)

    def made() -> Plan:
        before = state_at(past, len(upto))
        return _served(service, changed_plan(before, settings, brief, models, actor_keys(service.offers.actors)))

    plan, named, changes = await beside(made), _key(key), {**values, **data.state}
    await runtime.store.require_sealing()
    begun = await runtime.client.fork(
        past[0].run,
        len(upto),
        plan=plan,
        brief=brief,
        tags=data.tags,
        state=changes,
        key=named,
        by=identity.signature,
        author=identity.name,
    )
    return await _begun(service, fork_of(past, len(upto), begun, named, Change(plan, brief, data.tags, changes)))


def _refuse_harm(identity: Identity, data: Forking) -> None:
    """Raises Refused when somebody who may not do everything gives a worker other options, or trusts a plan."""
    names = [setting.partition("=")[0].strip().rpartition(".")[2] for setting in split_state(data.settings)[1]]
    harmful = [name for name in names if name not in _HARMLESS] + (["trust"] if data.trust else [])
    if harmful and not identity.may("admin"):
        raise Refused(403, "scope", f"{harmful[0]} may have a worker do anything: this needs the scope admin")


def _plan(service: Service, given: Submission | BatchSubmission, brief: Brief) -> Plan:
    """Returns the plan as the run keeps it. Raises InputError."""
    source = _offered(service, given.workflow)
    plan = override(source.plan, given.until, given.max_iterations, given.budget)
    own = actor_keys(source.actors)
    if service.settings.bus == LOCAL:
        models = models_of(service.settings)
        plan = prepare(plan, brief, models, own, given.model)
        check_models(plan, models, own)
    else:
        models = Models(prices=service.settings.model_prices)
        plan = prepare(plan, brief, models, own, given.model)
        check_money(plan, models, own)
    return pin_versions(plan, service.offers.actors)


def _offered(service: Service, name: str) -> Source:
    offered = service.offers.workflows
    if name not in offered:
        raise InputError(f"workflow {name!r} is not offered here; there are {', '.join(offered) or 'none'}")
    return offered[name]


def _served(service: Service, plan: Plan) -> Plan:
    """Returns the plan with the versions of its actors. Raises InputError for one that nobody here serves."""
    known = {(actor.role, actor.name) for actor in service.offers.actors} | service.offers.elsewhere
    missing = [step for _, step in steps_in(plan.steps) if (step.role, step.actor) not in known]
    if missing and service.settings.bus == LOCAL:
        raise InputError(f"the {missing[0].role} {missing[0].actor} is not served here; name its workflow at the start")
    return pin_versions(plan, service.offers.actors)


def _brief(service: Service, given: str | BriefText, what: str = "brief") -> Brief:
    made = Brief(given) if isinstance(given, str) else Brief(given.text, given.media_type, given.source, given.state)
    check_brief(made, what, service.settings.max_draft_bytes)
    return made


def _key(key: str | None) -> str:
    """Returns the key; nothing for none. Raises InputError for one of blanks: then a variable has no value."""
    if key is not None and not key.strip():
        raise InputError("Idempotency-Key is empty: give it a word, or leave it out")
    return key or ""


async def _begun(service: Service, start: StartRun) -> Begun:
    """Returns the run, once it can be looked at, or that it is on its way.

    Raises InputError where it began with what somebody else sent at the same time, here or elsewhere, with its key.
    """
    recorded = start.run in await _recorded(service, [start.run])
    if recorded:
        await service.runtime.client.require_own(start)
    return Begun(start.run, recorded)


async def _recorded(service: Service, runs: Sequence[str]) -> set[str]:
    """Returns those of the runs that can be looked at, once all can, or when that takes too long."""
    recorded: dict[str, int] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            for run in runs:
                recorded[run] = (await service.runtime.client.wait(run, "run.started")).position
    await service.shown(max(recorded.values(), default=0))
    return set(recorded)


def _answer_begun(begun: Begun) -> Response[bytes]:
    return answer(begun, 201 if begun.recorded else 202, Location=f"/api/v1/runs/{begun.run}")


HANDLERS: Final = (submit, submit_batch, fork)
