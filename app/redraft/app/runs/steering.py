"""A person's message to a running run, and the event that records it.

With a broker it goes to the coordinator's inbox. Without one, and for a run that `redraft run` began and no broker
knows of, the coordinator's own `CommandHandler` decides on it here, and records it: a process that works on the run
sees that the log has moved on, and `redraft run --resume` finds it there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from itertools import groupby
from typing import Final, TypeAlias

from msgspec.structs import replace

from redraft.actors.deciding.policy import with_limits
from redraft.actors.deciding.state import RunState
from redraft.actors.deciding.steering import not_asked, steered, why_void
from redraft.actors.runtime.admission import require_sendable
from redraft.actors.runtime.relaying.item_words import pass_on
from redraft.actors.values import ignore
from redraft.app.client.client import Client
from redraft.app.process.ids import new_message_id
from redraft.app.record.past import drafts_of
from redraft.app.settings.settings import LOCAL, Settings
from redraft.app.subscribing.misfits import folded, followed
from redraft.app.wiring.deployment import open_client
from redraft.app.wiring.local import LocalRuntime, open_handler, open_readonly
from redraft.events.errors import InputError, NoSuchRun
from redraft.events.messages.codec import HASHED, encode_said
from redraft.events.messages.commands import (
    ApproveDraft,
    ChangeLimits,
    EditDraft,
    GuideRun,
    PauseRun,
    QuarantineRun,
    RejectDraft,
    ResumeRun,
    SteeringMessage,
    StrikeLesson,
)
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import RunEnded, RunQuarantined, Steered
from redraft.events.messages.envelope import Origin, Recorded
from redraft.projections.engine.projector import catch_up
from redraft.projections.read_models.runs_query import RunLine, find_run

ARRIVAL: Final = 5.0
"""Seconds to wait for a run that was submitted just now to be in the log."""

AGAIN: Final = 0.1
"""Seconds between two attempts to find it."""


class RunIsOver(InputError):
    """A message to a run that has ended: it changes nothing any more."""


class NotAsked(InputError):
    """A decision by somebody who is not among those who are asked for it."""


Word: TypeAlias = Callable[[Sequence[Recorded]], SteeringMessage]
"""Makes a person's message from the events of the run."""

BEGUN_HERE: Final = frozenset({"redraft run", "redraft run --batch", "refine", "redraft mcp"})
"""The callers whose runs a process works on by itself, without a broker, whatever broker is set."""

PATIENCE: Final = 10.0
"""Seconds to wait for a coordinator to record a message."""

SETTLED: Final = 1.0
"""Seconds to wait for that still once the message would be refused, since the latest event of its run.

A coordinator takes the messages of a run in order: it has recorded the event that made this one void, so this is next.
"""


async def steer(settings: Settings, text: str, word: Word) -> tuple[str, Recorded | None]:
    """Sends a message to the run that a text means; returns its id, and the event, if recorded within `PATIENCE`.

    Raises NoSuchRun, StoreError, BusError, and InputError (PlanError) when it would change nothing.
    """
    async with open_readonly(settings) as runtime:
        return await steer_on(settings, runtime, text, word)


async def steer_on(
    settings: Settings, runtime: LocalRuntime, text: str, word: Word, sender: Client | None = None, actor: str = ""
) -> tuple[str, Recorded | None]:
    """The same on a runtime that is open; `sender` has coordinators take the message, which may be of this process.

    `actor` is the name in the message and how it is known, where it was authenticated.
    """
    found = await _find_run(runtime, text, ARRIVAL if settings.bus != LOCAL else 0.0)
    run = found.run
    if found.status == "quarantined":
        raise InputError(f"run {run} was set aside, and nothing more is done for it: {found.reason}")
    past = await runtime.store.read(run)
    message = word(past)
    message = replace(message, key=message.key or new_message_id())
    if (event := recorded_under(past, message.key)) is not None:
        return run, event
    if settings.bus != LOCAL and past[0].actor in BEGUN_HERE:
        settings, sender = settings.model_copy(update={"bus": LOCAL}), None
    state = folded(past)
    refuse(state, message, settings)

    def is_void(event: Recorded) -> bool:
        nonlocal state
        state = followed(state, event)
        return _fault(state, message, settings) is not None

    event = await record_message(settings, runtime, message, sender, actor, past[-1].position, is_void)
    if event is None:
        now = await runtime.store.read(run)
        event = recorded_under(now, message.key)
        if event is None:
            _refuse_since(now, len(past), message, settings)
    return run, event


def recorded_under(past: Sequence[Recorded], key: str) -> Recorded | None:
    """Returns the event of a run that records the message with this key; None where there is none yet."""
    return next((each for each in past if isinstance(each.data, Steered) and each.data.key == key), None)


def _refuse_since(past: Sequence[Recorded], seen: int, message: SteeringMessage, settings: Settings) -> None:
    """Raises InputError where a run could not take a message after its first `seen` events, with the latest reason.

    What counts is how it stood each time that a message had been decided on, whose events share the beginning of their
    ids: this message was decided on at such a time, or still can be where it was never void.
    """
    state, fault = folded(past[:seen]), None
    for _, events in groupby(past[seen:], lambda each: each.id.rpartition(".")[0]):
        for event in events:
            state = followed(state, event)
        fault = _fault(state, message, settings) or fault
    if fault is not None:
        raise fault


def _fault(state: RunState, message: SteeringMessage, settings: Settings) -> InputError | None:
    """Returns why a coordinator would not record a message as the run stands; None when it would."""
    if steered(state, message, settings.max_draft_bytes) is None:
        try:
            refuse(state, message, settings)
        except InputError as error:
            return error
    return None


def draft_meant(past: Sequence[Recorded], number: int | None) -> DraftRef:
    """Returns the draft that a person means: by its number, or the one that waits for approval."""
    if number is not None:
        return numbered_draft(past, number)
    waiting = folded(past).approval
    return waiting.request.draft if waiting else DraftRef(0, "")


def step_meant(past: Sequence[Recorded]) -> str:
    """Returns the path of the step that asks people now; empty where none does."""
    waiting = folded(past).approval
    return waiting.request.path if waiting else ""


def numbered_draft(past: Sequence[Recorded], number: int | None) -> DraftRef:
    """Returns a draft by its number, or the newest one; one that fits none where the run has none yet.

    Raises InputError for a number that none has.
    """
    drafts = drafts_of(past)
    if not drafts:
        return DraftRef(0, "")
    chosen = number or max(drafts)
    if chosen not in drafts:
        raise InputError(f"--draft {chosen}: run {past[0].run} has drafts 1 to {max(drafts)}")
    return drafts[chosen].ref


async def _find_run(runtime: LocalRuntime, text: str, patience: float) -> RunLine:
    """The run that a text means; one that was submitted just now may still be on its way, and is waited for."""
    clock = asyncio.get_running_loop().time
    end = clock() + patience
    while True:
        try:
            return await find_run(runtime.views, text)
        except NoSuchRun:
            if clock() >= end:
                raise
        await asyncio.sleep(AGAIN)
        await catch_up(runtime.views, runtime.store)


def refuse(state: RunState, message: SteeringMessage, settings: Settings) -> None:
    """Raises InputError with the reason and the remedy when this message would change nothing."""
    limit = settings.max_draft_bytes
    run = message.run
    if state.status == "quarantined":
        raise InputError(
            f"run {run} was set aside just before, and nothing more is done for it; see redraft show {run}"
        )
    if state.status != "running":
        raise RunIsOver(f"run {run} has ended and takes no more messages; see redraft show {run}")
    match message:
        case GuideRun(advice=advice) if not advice.strip():
            raise InputError("the advice is empty; say in a sentence what the next refinement should take into account")
        case PauseRun() if state.paused:
            raise InputError(f"run {run} is paused already; go on with: redraft resume {run}")
        case ResumeRun() if not state.paused:
            raise InputError(f"run {run} is not paused; {_what_now(state, run, is_shared=settings.bus != LOCAL)}")
        case ChangeLimits(loop=loop, until=until, max_iterations=most):
            with_limits(state.plan, loop, until, most)
        case ApproveDraft() | RejectDraft() | EditDraft() if fault := why_void(state, message, limit):
            is_strange = state.approval is not None and fault == not_asked(state.approval, message.by)
            raise (NotAsked if is_strange else InputError)(f"run {run}: {fault}")
        case ApproveDraft(draft=draft) if gate := state.bars.gates.get(draft.sha256):
            raise InputError(f"run {run}: {gate}, and an approval cannot overrule a gate; reject the draft, or edit it")
        case _:
            return


def _what_now(state: RunState, run: str, *, is_shared: bool) -> str:
    """Returns what a run waits for that is not paused, and what a person may do about it."""
    if state.approval:
        return f"its draft waits for a decision: redraft approve {run}, or reject"
    if is_shared:
        return "a coordinator and workers go on with it; see redraft doctor whether they run"
    return f"if no process works on it: redraft run --resume {run}"


async def record_message(
    settings: Settings,
    runtime: LocalRuntime,
    message: SteeringMessage | QuarantineRun | StrikeLesson,
    sender: Client | None = None,
    actor: str = "",
    after: int | None = None,
    is_void: Callable[[Recorded], object] = ignore,
) -> Recorded | None:
    """Records the event of a message, or has a coordinator do so; None when nothing changed, or it takes too long.

    `is_void` is called with the run's events `after` this position of the log (by default, that of its end), and says
    whether the message would change nothing by now. Raises InputError for a message with a text that cannot be written
    as UTF-8.
    """
    encode_said(message)
    if sender is not None:
        return await _send(sender, runtime, message, actor, after, is_void)
    if settings.bus != LOCAL:
        async with open_client(settings, reads=False) as client:
            return await _send(client, runtime, message, actor, after, is_void)
    message_id = new_message_id()
    message = replace(message, key=message.key or message_id)
    origin = Origin(message_id, actor or message.by, "", message.run)
    require_sendable(message, origin)
    async with open_handler(settings, runtime) as handler:
        settled = await handler.carry_out(message, origin)
        await pass_on(handler, settled.recorded)
    if settled.refused:
        raise InputError(settled.refused)
    return settled.recorded[0] if settled.recorded else None


async def _send(
    client: Client,
    runtime: LocalRuntime,
    message: SteeringMessage | QuarantineRun | StrikeLesson,
    actor: str,
    after: int | None,
    is_void: Callable[[Recorded], object],
) -> Recorded | None:
    after, sets_aside = await runtime.store.head() if after is None else after, isinstance(message, QuarantineRun)
    clock = asyncio.get_running_loop().time
    message_id = await client.steer(message, actor=actor)
    end = clock() + PATIENCE
    with suppress(TimeoutError):
        async with (
            asyncio.timeout_at(end) as waiting,
            aclosing(runtime.client.subscribe(after, run=message.run)) as events,
        ):
            async for event in events:
                is_own = event.id == f"{message_id}.0" or (message.key and recorded_under([event], message.key))
                if is_own or (sets_aside and isinstance(event.data, RunQuarantined)):
                    return event
                if isinstance(event.data, RunEnded) and not sets_aside:
                    raise RunIsOver(f"run {message.run} ended just before; see redraft show {message.run}")
                waiting.reschedule(min(end, clock() + SETTLED) if is_void(event) else end)
    return None


async def quarantine(settings: Settings, text: str, reason: str, by: str) -> tuple[str, Recorded | None]:
    """Sets the run that a text means aside; returns its id, and the event, if it was recorded within `PATIENCE`.

    Raises NoSuchRun, StoreError, BusError, and InputError when it is set aside already, or no reason is given.
    """
    if not reason.strip():
        raise InputError("no reason is given; say in a sentence why the run cannot be relied on: --reason TEXT")
    async with open_readonly(settings) as runtime:
        found = await find_run(runtime.views, text)
        _refuse_twice(found)
        if settings.bus != LOCAL:
            await _require_event(runtime, found.run)
        event = await record_message(settings, runtime, QuarantineRun(found.run, by, reason))
        if event is None:
            await catch_up(runtime.views, runtime.store)
            _refuse_twice(await find_run(runtime.views, found.run))
        return found.run, event


def _refuse_twice(found: RunLine) -> None:
    if found.status == "quarantined":
        raise InputError(f"run {found.run} is set aside already: {found.reason}")


async def _require_event(runtime: LocalRuntime, run: str) -> None:
    """Raises InputError when the last row of a run has no hash: no coordinator could record what follows it."""
    version, _, state, _ = (await runtime.store.raw(run))[-1]
    if not bytes(state).startswith(HASHED):
        raise InputError(
            f"run {run} cannot be set aside by an event: its last row, {version}, is not an event, and the "
            "database accepts no event after it; no process works on this run as it is"
        )
