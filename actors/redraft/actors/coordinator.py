"""Reads what comes in, decides, appends, acknowledges. It alone appends to the log."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from functools import partial
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from redraft.actors.admission import Admission
from redraft.actors.arms import Choose
from redraft.actors.decider import Decision, handle, is_open, unwelcome
from redraft.actors.evolve import fold
from redraft.actors.forking import forked, unfit
from redraft.actors.run_state import RunState
from redraft.actors.spending import NOTHING
from redraft.actors.thompson import Tallies, Undecided, thompson
from redraft.events.bus import INBOX, Bus, Consumer, Delivery
from redraft.events.commands import ConfirmStep, Message, StartRun
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.domain_events import DomainEvent, Parent
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import CodecError, Conflict, InputError
from redraft.events.store import Append, NewEvent
from redraft.events.usage import Usage

BATCH: Final = 64
"""How many messages are decided on before what they bring is handed to the log; the next are decided on meanwhile."""

REMEMBERED: Final = 16_384
"""For how many runs it is remembered that our idea of them was wrong: far more than are on their way at once."""

TRIES: Final = 5
"""How often a message is looked at before it is refused: another coordinator may be about to record its run's start."""

PREFETCH: Final = 1024
"""How many messages may be on their way through the coordinator."""

KEPT: Final = 1024
"""How many runs' states are kept in memory; the expected version tells when one of them is out of date."""

Written: TypeAlias = Coroutine[None, None, Sequence[tuple[Recorded, ...] | Conflict]]


class Log(Protocol):
    def hand_in(self, appends: Sequence[Append]) -> Written: ...

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...


class Resend(Protocol):
    """Sends an open request again for the nth time (`sent`), as one that is surely without an answer."""

    async def __call__(self, run: str, path: str, sent: int) -> None: ...


class Spent(Protocol):
    """What the runs of a workflow used together that began on the day (UTC) of this time, but for one run."""

    async def __call__(self, workflow: str, day: datetime, but: str) -> Usage: ...


class Known(Protocol):
    """What is known of the arms of a workflow, by now or a little before."""

    async def __call__(self, workflow: str) -> Tallies: ...


class Incoming(msgspec.Struct, frozen=True, gc=False):
    """A message; for the start of a fork with the `past` that it repeats."""

    delivery: Delivery
    message: Message
    past: Sequence[Recorded] = ()


class Turn(msgspec.Struct, frozen=True):
    """What was decided on together: the messages, what they bring, and requests that a worker was not sure of.

    `refused` says, by the tag of a delivery, why its message is to be set aside. `epochs` counts, for each run, how
    often our idea of it had turned out to be wrong when it was decided on.
    """

    incoming: Sequence[Incoming]
    appends: list[Append]
    doubts: list[ConfirmStep]
    refused: dict[int, str]
    epochs: dict[str, int]


class Coordinator:
    """Decides for every run. Messages of one run are taken in order; different runs share a transaction.

    `resend` sends one open request again, confirmed, to a worker that was not sure of it. `ignored` counts messages
    that changed nothing: late, foreign or duplicate ones. What is for no run at all is set aside. `spent` is asked for
    plans with a daily budget, `known` when a step has to choose.
    """

    def __init__(
        self,
        log: Log,
        bus: Bus,
        clock: Callable[[], datetime],
        resend: Resend,
        limit: int = MAX_DRAFT_BYTES,
        spent: Spent | None = None,
        known: Known | None = None,
    ) -> None:
        self.ignored = 0
        self._log = log
        self._bus = bus
        self._clock = clock
        self._resend = resend
        self._limit = limit
        self._spent = spent
        self._known = known
        self._undecided = Undecided()
        self._admission = Admission(limit, bus.largest)
        self._draining = False
        self._taking: asyncio.Timeout | None = None
        self._states: OrderedDict[str, RunState] = OrderedDict()
        self._epochs: dict[str, int] = {}

    def drain(self) -> None:
        """Takes nothing more; `run` returns once what was taken is recorded and acknowledged, or given back."""
        self._draining = True
        if self._taking is not None:
            self._taking.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Serves the inbox until it is drained or cancelled. Raises BusError or StoreError when either is away."""
        self._states.clear()
        before: asyncio.Task[None] | None = None
        async with self._bus.consume(INBOX, PREFETCH) as inbox, asyncio.TaskGroup() as group:
            while deliveries := await self._taken(inbox):
                incoming = [each for delivery in deliveries if (each := await self._decoded(inbox, delivery))]
                turn = await self._decided(incoming)
                written = self._log.hand_in(turn.appends) if turn.appends else None
                before = group.create_task(self._settled(inbox, turn, written, before))

    async def _taken(self, inbox: Consumer) -> Sequence[Delivery]:
        """What waits in the inbox; nothing once the coordinator is drained."""
        if self._draining:
            return ()
        taking = self._taking = asyncio.timeout(None)
        try:
            async with taking:
                return await inbox.take(BATCH)
        except TimeoutError:
            if not taking.expired():
                raise
            return ()
        finally:
            self._taking = None

    async def _decoded(self, inbox: Consumer, delivery: Delivery) -> Incoming | None:
        try:
            message = self._admission.message(delivery.letter)
            past = await self._past(message, message.parent) if isinstance(message, StartRun) and message.parent else ()
            return Incoming(delivery, message, past)
        except (CodecError, InputError) as error:
            await inbox.reject(delivery, requeue=False, reason=str(error))
            return None

    async def _past(self, start: StartRun, parent: Parent) -> Sequence[Recorded]:
        """What a fork is to repeat. Raises InputError when it cannot begin like this."""
        past = await self._log.read(parent.run, upto=parent.version)
        if fault := unfit(start, past):
            raise InputError(f"run {start.run} cannot begin as a fork: {fault}")
        return past

    async def _decided(self, incoming: Sequence[Incoming]) -> Turn:
        """Decides on all. What is decided next builds on it, though it is not yet written."""
        now = self._clock()
        turn = Turn(incoming, [], [], {}, {})
        for each in incoming:
            run = each.message.run
            state = await self._state(each)
            turn.epochs[run] = self._epochs.get(run, 0)
            others = await self._others(state, each.message, now)
            decision = self._handled(state, each, now, others)
            if not decision.events and (newer := await self._newer(run, state)) is not None:
                state, decision = newer, self._handled(newer, each, now, others)
            if self._undecided.was_asked:
                decision = self._handled(state, each, now, others, await self._choosing(state, each.message))
            if decision.events:
                came = each.delivery.letter.origin
                turn.appends.append(Append(run, state.version, new_events(came, run, decision.events, now, each.past)))
                self._keep(run, decision.state)
            elif isinstance(each.message, ConfirmStep) and is_open(state, each.message.path, each.message.attempt):
                turn.doubts.append(each.message)
            elif reason := unwelcome(state, each.message):
                turn.refused[each.delivery.tag] = reason
            else:
                self.ignored += 1
        return turn

    def _handled(
        self, state: RunState, incoming: Incoming, now: datetime, others: Usage, choose: Choose | None = None
    ) -> Decision:
        message, choosing = incoming.message, choose or self._undecided
        if incoming.past and isinstance(message, StartRun) and state.status == "new":
            return forked(message, incoming.past, now, others, choosing)
        return handle(state, message, now, self._limit, others, choosing)

    async def _choosing(self, state: RunState, message: Message) -> Choose:
        """What a choice is made by: looked up only now that there is one to make."""
        self._undecided.was_asked = False
        workflow = message.plan.name if isinstance(message, StartRun) else state.plan.name
        return partial(thompson, message.run, await self._known(workflow) if self._known else {})

    async def _settled(
        self, inbox: Consumer, turn: Turn, written: Written | None, before: asyncio.Task[None] | None
    ) -> None:
        """Acknowledges what is written, in order.

        Where another coordinator was faster, what was decided since on our idea of the run, also that a message means
        nothing, is void: those messages come again.
        """
        results = await written if written else ()
        if before is not None and not before.done():
            await asyncio.wait([before])
        for append, result in zip(turn.appends, results, strict=True):
            if isinstance(result, Conflict):
                self._states.pop(append.run, None)
                self._epochs[append.run] = turn.epochs[append.run] + 1
        while len(self._epochs) > REMEMBERED:
            del self._epochs[next(iter(self._epochs))]
        void = {run for run, epoch in turn.epochs.items() if self._epochs.get(run, 0) != epoch}
        for doubt in turn.doubts:
            if doubt.run not in void:
                await self._resend(doubt.run, doubt.path, doubt.sent + 1)
        unsettled = [each for each in turn.incoming if each.message.run in void or each.delivery.tag in turn.refused]
        left = {each.delivery.tag for each in unsettled}
        await inbox.ack([each.delivery for each in turn.incoming if each.delivery.tag not in left])
        for each in unsettled:
            moved = f"run {each.message.run} had moved on" if each.message.run in void else ""
            reason = moved or turn.refused[each.delivery.tag]
            await inbox.reject(each.delivery, requeue=bool(moved) or each.delivery.count < TRIES, reason=reason)

    async def _state(self, incoming: Incoming) -> RunState:
        """The state of a message's run. One that is only now to start is taken to be new, until the log objects."""
        run = incoming.message.run
        state = self._states.get(run)
        if state is not None:
            return state
        if isinstance(incoming.message, StartRun) and incoming.delivery.count == 1:
            return RunState()
        return fold(event.data for event in await self._log.read(run))

    async def _others(self, state: RunState, message: Message, now: datetime) -> Usage:
        """What the other runs of the workflow used that began on the same day, if the plan asks for it."""
        plan = message.plan if isinstance(message, StartRun) else state.plan
        if plan.daily is None or self._spent is None:
            return NOTHING
        return await self._spent(plan.name, state.started or now, message.run)

    async def _newer(self, run: str, state: RunState) -> RunState | None:
        """The state as the log has it, if another coordinator went on with the run: then it may know of the message."""
        if not await self._log.read(run, after=state.version):
            return None
        newer = fold(event.data for event in await self._log.read(run))
        self._keep(run, newer)
        return newer

    def _keep(self, run: str, state: RunState) -> None:
        self._states[run] = state
        self._states.move_to_end(run)
        if len(self._states) > KEPT:
            self._states.popitem(last=False)


def new_events(
    came: Origin, run: str, events: Sequence[DomainEvent], now: datetime, past: Sequence[Recorded] = ()
) -> tuple[NewEvent, ...]:
    """Events with their ids: made from that of the message that came, so that the same decision gives the same ids.

    Those of a fork after its first, as many as there are in the `past`, name the one that they repeat, and who spoke.
    """
    first = f"{came.id}.0"
    correlation = came.correlation or run
    if past:
        return _of_fork(came, run, events, now, past)
    return tuple(
        NewEvent(
            Origin(
                f"{came.id}.{number}",
                "coordinator" if number else came.actor,
                first if number else came.causation,
                correlation,
                came.trace,
            ),
            now,
            event,
        )
        for number, event in enumerate(events)
    )


def _of_fork(
    came: Origin, run: str, events: Sequence[DomainEvent], now: datetime, past: Sequence[Recorded]
) -> tuple[NewEvent, ...]:
    own = new_events(came, run, events, now)
    told = (
        replace(new, origin=replace(new.origin, actor=before.actor, repeats=before.id))
        for new, before in zip(own[1:], past[1:], strict=False)
    )
    return (own[0], *told, *own[len(past) :])
