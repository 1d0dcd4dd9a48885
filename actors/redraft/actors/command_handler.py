"""Decides on messages and records what they bring, again and again until the log takes it.

What is decided names the event that it was decided on; the log refuses it when that is not the last one of its run.
Then it is void, with all that was decided on it, also that a message means nothing: those messages are decided on anew.
Whatever fails for one run (its events cannot be read or folded, what it brings cannot be written) concerns that run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from functools import partial
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from redraft.actors.aggregates import Aggregate, Aggregates
from redraft.actors.arms import Choose
from redraft.actors.authority import Authority
from redraft.actors.decider import Decision, handle, is_early, is_open, unwelcome
from redraft.actors.forking import forked
from redraft.actors.origins import new_events
from redraft.actors.run_state import RunState
from redraft.actors.spending import NOTHING
from redraft.actors.thompson import Tallies, Undecided, thompson
from redraft.actors.trouble import is_for_another, told
from redraft.actors.values import shown
from redraft.events.appends import Append, Encoded
from redraft.events.codec import hash_of
from redraft.events.commands import (
    ANSWERS,
    ConfirmStep,
    ExpireStep,
    Failed,
    Message,
    OutcomeMessage,
    QuarantineRun,
    RetryStep,
    StartRun,
)
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.domain_events import EVENT_NAMES, RunQuarantined
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import (
    BusError,
    CodecError,
    Conflict,
    NoSuchRun,
    Sealed,
    StoreError,
    Tampered,
)
from redraft.events.plan import Plan
from redraft.events.usage import Usage

Written: TypeAlias = Coroutine[None, None, Sequence[tuple[Recorded, ...] | Conflict]]
Report: TypeAlias = Callable[[str, str], None]
"""Told of a run that was set aside or cannot be handled here, and why."""

MACHINERY: Final = "coordinator"
"""The actor recorded when a run is set aside because its events cannot be followed."""

REPORTED: Final = 1024
"""How many runs are remembered as reported."""

_QUARANTINED: Final = EVENT_NAMES[RunQuarantined]


class Log(Protocol):
    async def require_sealing(self) -> None: ...

    async def encode(self, append: Append, *, looked: bool = False) -> Encoded: ...

    def hand_in(self, appends: Sequence[Encoded]) -> Written: ...

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...

    async def raw(self, run: str) -> Sequence[tuple[int, str, bytes, int]]: ...


class Resend(Protocol):
    """Sends an open request again for the nth time (`sent`), as one that is surely without an answer."""

    async def __call__(self, run: str, path: str, sent: int) -> None: ...


class Spent(Protocol):
    """Returns the summed usage of a workflow's runs that began on this day (UTC), without the run `but`."""

    async def __call__(self, workflow: str, day: datetime, but: str) -> Usage: ...


class Known(Protocol):
    """Returns the tallies of a workflow's arms, at most a little out of date."""

    async def __call__(self, workflow: str) -> Tallies: ...


class Incoming(msgspec.Struct, frozen=True, gc=False):
    """A message, where it comes from, and for the start of a fork the `past` that it repeats.

    `tag` names it to whoever handed it in. `fresh`: nobody can have seen it before, so that a run that it starts is
    taken to be new until the log objects. `refused_on` is the hash that it was decided on when the log last refused
    what it brought. `user` is whom the broker knows to have sent it.
    """

    message: Message
    origin: Origin
    tag: int = 0
    fresh: bool = False
    past: Sequence[Recorded] = ()
    refused_on: str | None = None
    user: str = ""


class Decided(msgspec.Struct, frozen=True, gc=False):
    """The decision on a message: record events, send a request again, refuse it, or do nothing.

    `on` is the hash of the event that it was decided on. It is `early` when its run may be about to begin, and `barred`
    when who sent it may not say it, whenever it is.
    """

    incoming: Incoming
    aggregate: Aggregate
    on: str
    append: Encoded | None = None
    doubt: ConfirmStep | None = None
    refused: str = ""
    early: bool = False
    barred: bool = False


class Turn(msgspec.Struct, frozen=True, gc=False):
    """Decisions made together, and the append of their events, which has begun."""

    decided: Sequence[Decided]
    written: Written | None


class Settled(msgspec.Struct, frozen=True, gc=False):
    """The result of a message: the events recorded, or why it is `refused`; neither where it changes nothing."""

    incoming: Incoming
    recorded: tuple[Recorded, ...] = ()
    refused: str = ""
    barred: bool = False


class CommandHandler:
    """Decides for every run. `resend` sends one open request again to a worker that was not sure of it.

    `spent` is asked for plans with a daily budget, `known` when a step has to choose, `report` told of runs that are
    set aside or cannot be handled here, once. `limit` is the size of a draft in bytes at most. `authority` says who may
    answer; without it everybody may. `ignored` counts messages that changed nothing.
    """

    def __init__(
        self,
        log: Log,
        clock: Callable[[], datetime],
        resend: Resend,
        limit: int = MAX_DRAFT_BYTES,
        spent: Spent | None = None,
        known: Known | None = None,
        report: Report = lambda run, why: None,
        authority: Authority | None = None,
    ) -> None:
        self.ignored = 0
        self._authority = authority
        self._log = log
        self._clock = clock
        self._resend = resend
        self._limit = limit
        self._spent = spent
        self._known = known
        self._report = report
        self._reported: dict[str, str] = {}
        self._undecided = Undecided()
        self._aggregates = Aggregates(log)
        self._deciding = asyncio.Lock()
        self._looked = False

    def forget(self) -> None:
        """Forgets all runs, as when it is not known what became of what was handed in."""
        self._aggregates.clear()

    async def carry_out(self, message: Message, origin: Origin) -> Settled:
        """Decides on one message, and records what it brings. Raises StoreError."""
        turn = await self.decide([Incoming(message, origin)])
        (settled,) = await self.settle(turn, None)
        return settled

    async def decide(self, incoming: Sequence[Incoming]) -> Turn:
        """Decides on all, in order, and hands in what they bring. What is decided next builds on it.

        Raises StoreError when the store is away.
        """
        async with self._deciding:
            now = self._clock()
            self._looked = False
            decided = [await self._decided(each, now) for each in incoming]
            appends = [each.append for each in decided if each.append is not None]
            return Turn(decided, self._log.hand_in(appends) if appends else None)

    async def settle(self, turn: Turn, before: asyncio.Task[None] | None) -> Sequence[Settled]:
        """Returns the results of a turn's messages, once their events are recorded and the turn `before` is settled.

        Where somebody else was faster they are decided on again, until it is. Raises StoreError, BusError.
        """
        settled: list[Settled] = []
        while True:
            results = await turn.written if turn.written is not None else ()
            if before is not None and not before.done():
                await asyncio.wait([before])
            again = await self._sorted(turn, results, settled)
            if not again:
                return settled
            turn = await self.decide(again)

    async def _sorted(
        self, turn: Turn, results: Sequence[tuple[Recorded, ...] | Conflict], settled: list[Settled]
    ) -> list[Incoming]:
        """Adds to `settled` what counts; gives the messages that are to be decided on again."""
        outcomes = iter(results)
        paired = [(each, next(outcomes) if each.append is not None else ()) for each in turn.decided]
        for each, result in paired:
            if isinstance(result, Conflict):
                self._aggregates.drop(each.incoming.message.run, each.aggregate)
        again: list[Incoming] = []
        for each, result in paired:
            if result and not isinstance(result, Conflict):
                settled.append(Settled(each.incoming, result))
            elif each.aggregate.void:
                again.append(replace(each.incoming, refused_on=each.on, fresh=False))
            else:
                settled.append(await self._without_events(each))
        return again

    async def _without_events(self, decided: Decided) -> Settled:
        if decided.doubt is not None:
            await self._resend(decided.doubt.run, decided.doubt.path, decided.doubt.sent + 1)
        elif not decided.refused:
            self.ignored += 1
        return Settled(decided.incoming, refused=decided.refused, barred=decided.barred)

    async def _decided(self, each: Incoming, now: datetime) -> Decided:
        try:
            if isinstance(each.message, QuarantineRun):
                return await self._quarantined(each, each.message, now)
            return await self._judged(each, now)
        except Exception as error:
            if _is_elsewhere(error):
                raise
            return await self._troubled(each, error, now)

    async def _judged(self, each: Incoming, now: datetime) -> Decided:
        run = each.message.run
        if each.refused_on is not None and await self._is_recorded(each):
            return _nothing(each)
        aggregate = self._aggregates.known(run) or await self._aggregate(each)
        if aggregate.hash == each.refused_on:
            return _nothing(each, f"the log refuses what it brings: an event with the id {each.origin.id}.… is there")
        if refused := self._refused(each, aggregate):
            return Decided(each, aggregate, aggregate.hash, refused=refused, barred=True)
        plan = each.message.plan if isinstance(each.message, StartRun) else aggregate.state.plan
        others = NOTHING if plan.daily is None else await self._others(aggregate.state, plan, run, now)
        decision = self._handled(aggregate.state, each, now, others)
        if not decision.events and (newer := await self._aggregates.newer(run, aggregate)) is not None:
            aggregate, decision = newer, self._handled(newer.state, each, now, others)
        if self._undecided.was_asked:
            choose = await self._choosing(aggregate.state, each.message)
            decision = self._handled(aggregate.state, each, now, others, choose)
        if decision.events:
            return await self._appended(each, aggregate, decision, now)
        if isinstance(each.message, ConfirmStep) and is_open(aggregate.state, each.message.path, each.message.attempt):
            return Decided(each, aggregate, aggregate.hash, doubt=each.message)
        refused, early = unwelcome(aggregate.state, each.message), is_early(aggregate.state, each.message)
        return Decided(each, aggregate, aggregate.hash, refused=refused, early=early)

    def _refused(self, each: Incoming, aggregate: Aggregate) -> str:
        """Why an answer is not taken; empty for one that is, or that nobody waits for.

        One that names what it answers answers that event alone: a log that was set back asks for the same anew.
        """
        message, state = each.message, aggregate.state
        if not isinstance(message, ANSWERS):
            return ""
        asked = state.open.get(message.path) or state.late.get(message.path)
        if asked is None or asked.attempt != message.attempt:
            return ""
        if self._authority is not None and (refused := self._authority.refusal(each.user, asked.request)):
            return refused
        cause, request = each.origin.causation, aggregate.asked.get(message.path, "")
        if cause in ("", request):
            return ""
        return f"it answers {shown(cause)}, and {message.path} was asked for by {shown(request)}: the log was set back"

    async def _appended(self, each: Incoming, aggregate: Aggregate, decision: Decision, now: datetime) -> Decided:
        run, on = each.message.run, aggregate.hash
        events = new_events(each.origin, run, decision.events, now, each.past)
        if aggregate.state.version == 0 and not self._looked:
            await self._log.require_sealing()
            self._looked = True
        try:
            encoded = await self._log.encode(Append(run, aggregate.state.version, events, on), looked=self._looked)
        except CodecError as error:
            return await self._unwritten(each, str(error), now)
        aggregate.advance(decision.state, encoded.hash, [(new.origin.id, new.data) for new in events])
        self._aggregates.keep(run, aggregate)
        return Decided(each, aggregate, on, encoded)

    async def _aggregate(self, each: Incoming) -> Aggregate:
        """A run that is not kept."""
        if each.fresh and isinstance(each.message, StartRun):
            return Aggregate()
        return await self._aggregates.load(each.message.run)

    async def _is_recorded(self, each: Incoming) -> bool:
        """Whether the log has what this message brought already: it was recorded, and that it was is not known."""
        first = f"{each.origin.id}.0"
        return any(event.id == first for event in await self._log.read(each.message.run))

    def _handled(
        self, state: RunState, incoming: Incoming, now: datetime, others: Usage, choose: Choose | None = None
    ) -> Decision:
        message, choosing = incoming.message, choose or self._undecided
        self._undecided.was_asked = False
        if incoming.past and isinstance(message, StartRun) and state.status == "new":
            return forked(message, incoming.past, now, others, choosing)
        return handle(state, message, now, self._limit, others, choosing)

    async def _choosing(self, state: RunState, message: Message) -> Choose:
        """Returns the function that chooses an arm; reads the tallies only when there is a choice to make."""
        workflow = message.plan.name if isinstance(message, StartRun) else state.plan.name
        return partial(thompson, message.run, await self._known(workflow) if self._known else {})

    async def _others(self, state: RunState, plan: Plan, run: str, now: datetime) -> Usage:
        """Returns the summed usage of the workflow's other runs that began on the same day (UTC)."""
        return NOTHING if self._spent is None else await self._spent(plan.name, state.started or now, run)

    async def _unwritten(self, each: Incoming, why: str, now: datetime) -> Decided:
        """Returns a decision that fails the step whose outcome cannot be encoded, or else sets the run aside."""
        message = each.message
        if isinstance(message, StartRun):
            return _nothing(each, why)
        if isinstance(message, OutcomeMessage):
            failed = Failed(message.run, message.path, message.attempt, "invalid", why, retryable=False)
            if message != failed:
                return await self._judged(replace(each, message=failed), now)
        return await self._stopped(each, why, now)

    async def _troubled(self, each: Incoming, error: Exception, now: datetime) -> Decided:
        """Returns a decision that sets aside a run whose events cannot be read or folded.

        A run of a later release, and one that is sealed with a key that is not here, may be handled elsewhere: nothing
        is recorded of it, and the message is refused. What time brings is not kept: it comes again.
        """
        why = told(error)
        if not is_for_another(error):
            return await self._stopped(each, f"its events cannot be followed: {why}", now)
        self._report_once(each.message.run, why)
        return _nothing(each, "" if isinstance(each.message, RetryStep | ExpireStep | ConfirmStep) else why)

    async def _stopped(self, each: Incoming, why: str, now: datetime) -> Decided:
        self._report_once(each.message.run, why)
        return await self._quarantined(each, QuarantineRun(each.message.run, MACHINERY, why), now)

    def _report_once(self, run: str, why: str) -> None:
        """Reports a run, unless this was said of it before and of fewer than `REPORTED` others since."""
        if self._reported.pop(run, "") != why:
            self._report(run, why)
        self._reported[run] = why
        if len(self._reported) > REPORTED:
            del self._reported[next(iter(self._reported))]

    async def _quarantined(self, each: Incoming, asked: QuarantineRun, now: datetime) -> Decided:
        """Sets a run aside without folding it: after the last event that there is, whatever the others say."""
        try:
            rows = await self._log.raw(asked.run)
        except NoSuchRun as error:
            return _nothing(each, str(error) if isinstance(each.message, QuarantineRun) else asked.reason)
        version, _, state, _ = rows[-1]
        on = hash_of(state)
        if on == each.refused_on:
            return _nothing(each, f"run {asked.run} cannot be set aside: the log refuses an event after its last one")
        if any(name == _QUARANTINED for _, name, _, _ in rows):
            return _nothing(each)
        event = RunQuarantined(asked.by, asked.reason, asked.key)
        append = Append(asked.run, version, new_events(each.origin, asked.run, [event], now), on)
        known = self._aggregates.known(asked.run)
        if known is not None:
            self._aggregates.drop(asked.run, known)
        return Decided(each, Aggregate(), on, await self._log.encode(append))


def _nothing(incoming: Incoming, refused: str = "") -> Decided:
    """A decision that brings nothing, whatever becomes of the run."""
    return Decided(incoming, Aggregate(), "", refused=refused)


def _is_elsewhere(error: Exception) -> bool:
    """Whether an error says that store or bus are away, and nothing of the run that was looked at."""
    if isinstance(error, StoreError):
        return not isinstance(error, Tampered | Sealed)
    return isinstance(error, BusError | OSError)
