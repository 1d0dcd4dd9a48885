"""Decides on messages and appends the resulting events, repeatedly until the log accepts them.

Each append names the event that it was decided on. The log refuses it if that is not the last one of the run; then the
decision and all that were made on it are void, also those that a message changes nothing, and the messages are decided
on again. An error of one run (its events cannot be read or folded, its new events cannot be encoded) affects only that
run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from redraft.actors.deciding.budget import NOTHING, less_repeated
from redraft.actors.deciding.decider import Decision, handle
from redraft.actors.deciding.forking import begin_fork
from redraft.actors.deciding.state import RunState
from redraft.actors.runtime.admission import Authority
from redraft.actors.runtime.coordinating.aggregates import Aggregate, Aggregates, NewTrace, no_trace, usage_of
from redraft.actors.runtime.coordinating.decisions import (
    Decided,
    DecidedBatch,
    Incoming,
    PendingResults,
    Settled,
    decide_nothing,
    discard,
    new_events,
    postpone,
)
from redraft.actors.runtime.coordinating.deferring import (
    Deferred,
    FindEarlier,
    ReadLessons,
    ReadSpent,
    ReadTallies,
    Spending,
    SpendingUnread,
    no_lessons,
)
from redraft.actors.runtime.coordinating.proving import RunTexts, needs_proof, proven
from redraft.actors.runtime.coordinating.refusing import why_not_edited, why_not_erased
from redraft.actors.runtime.coordinating.setting_aside import Report, SettingAside
from redraft.actors.runtime.relaying.queue_publisher import raise_if_short
from redraft.actors.values import ignore, shown
from redraft.events.errors import BusError, CodecError, Conflict, EncryptionKeyMissing, StoreError, Tampered, Unstorable
from redraft.events.messages.commands import (
    ANSWERS,
    Critiqued,
    EditDraft,
    EraseRun,
    Failed,
    Message,
    OutcomeMessage,
    QuarantineRun,
    Refined,
    StartRun,
)
from redraft.events.messages.content import MAX_DRAFT_BYTES
from redraft.events.messages.domain_events import StepRequested
from redraft.events.messages.envelope import Entry, Origin, Recorded
from redraft.events.messages.lessons import Lessons
from redraft.events.messages.usage import Usage
from redraft.events.store.append import Append, Encoded, NotTaken


class RunStore(Protocol):
    """Reads the events of a run, and appends to them."""

    async def require_sealing(self) -> bool: ...

    async def encode(self, append: Append, *, looked: bool = False) -> Encoded: ...

    def hand_in(self, appends: Sequence[Encoded]) -> PendingResults: ...

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...

    async def entries(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Entry]: ...

    async def raw(self, run: str) -> Sequence[tuple[int, str, bytes, int]]: ...

    async def has_key(self, run: str) -> bool: ...


Resend: TypeAlias = Callable[[str, str, int], Awaitable[None]]
"""Sends the open request of a run at a path again for the nth time, confirmed as unanswered."""


class CommandHandler:
    """Decides for every run.

    `resend` sends one open request again to a worker that was not sure of it. `spent` is called for plans with a daily
    budget, `known` when a step has to choose, `earlier` for a critic that takes verdicts of other runs again, `lessons`
    where a run begins whose plan asks for them, `report` once for each run that is set aside or cannot be handled here.
    `new_trace` makes the trace context of a run that began without one: events whose message names no trace get that
    of their run. `limit` is the largest draft, in bytes. A request that a worker asks about is given up once it has
    waited for `queue_limit`. `authority` decides who may answer; without it everybody may. `ignored` counts messages
    that changed nothing, `conflicts` decisions that the log refused.
    """

    def __init__(
        self,
        log: RunStore,
        clock: Callable[[], datetime],
        resend: Resend,
        limit: int = MAX_DRAFT_BYTES,
        spent: ReadSpent | None = None,
        known: ReadTallies | None = None,
        report: Report = ignore,
        authority: Authority | None = None,
        new_trace: NewTrace = no_trace,
        earlier: FindEarlier | None = None,
        queue_limit: timedelta | None = None,
        lessons: ReadLessons = no_lessons,
    ) -> None:
        self._queue_limit = queue_limit
        self._lessons = lessons
        self.ignored = 0
        self.conflicts = 0
        self._new_trace = new_trace
        self.authority = authority
        self.log = log
        self._clock = clock
        self._resend = resend
        self.limit = limit
        self._spent = Spending(spent) if spent is not None else None
        self._known = known
        self._earlier = earlier
        self._aggregates = Aggregates(log)
        self._aside = SettingAside(log, self._aggregates, report)
        self._deciding = asyncio.Lock()
        self._looked = False
        self._postponed: dict[str, SpendingUnread] = {}

    @property
    def loads(self) -> int:
        """The number of times a run was read from the log, as others had worked on it or it was evicted."""
        return self._aggregates.loads

    def forget(self) -> None:
        """Drops all runs from memory, as when it is unknown whether the last appends were recorded."""
        self._aggregates.clear()

    async def carry_out(self, message: Message, origin: Origin) -> Settled:
        """Decides on one message and records its events. Raises StoreError."""
        batch = await self.decide([Incoming(message, origin)])
        (settled,) = await self.settle(batch, None)
        return settled

    async def decide(self, incoming: Sequence[Incoming]) -> DecidedBatch:
        """Decides on all messages in order, each on the result of the one before, and begins to append their events.

        Those of a run with a daily budget are postponed, all of them, where it cannot be read what the day has spent.
        Raises StoreError when the store is away.
        """
        async with self._deciding:
            now = self._clock()
            self._looked = False
            self._postponed = {}
            decided = [await self._decide_one(each, now) for each in incoming]
            appends = [each.append for each in decided if each.append is not None]
            return DecidedBatch(decided, self.log.hand_in(appends) if appends else None)

    async def settle(self, batch: DecidedBatch, previous: asyncio.Task[None] | None) -> Sequence[Settled]:
        """Returns the results of a batch once its events are recorded and the `previous` batch is settled.

        Messages whose events the log refused, since another coordinator was faster, are decided on again until it
        accepts them. Raises BusError, and StoreError, also for a message that has to be postponed.
        """
        settled: list[Settled] = []
        while True:
            results = await batch.written if batch.written is not None else ()
            if why := next((each.postponed for each in batch.decided if each.postponed is not None), None):
                raise why
            if previous is not None and not previous.done():
                await asyncio.wait([previous])
            again = await self._sort_results(batch, results, settled)
            if not again:
                return settled
            batch = await self.decide(again)

    async def _sort_results(
        self, batch: DecidedBatch, results: Sequence[tuple[Recorded, ...] | NotTaken], settled: list[Settled]
    ) -> list[Incoming]:
        """Adds the results that count to `settled`; returns the messages that have to be decided on again."""
        outcomes = iter(results)
        paired = [(each, next(outcomes) if each.append is not None else ()) for each in batch.decided]
        self._void_after_conflicts(paired)
        again: list[Incoming] = []
        for each, result in paired:
            if result and not isinstance(result, Conflict | Unstorable):
                settled.append(Settled(each.incoming, result))
            elif each.aggregate.void:
                why = result.why if isinstance(result, Unstorable) else ""
                again.append(replace(each.incoming, refused_on=each.on, fresh=False, unstorable=why))
            else:
                settled.append(await self._settle_without_events(each))
        return again

    def _void_after_conflicts(self, paired: Sequence[tuple[Decided, tuple[Recorded, ...] | NotTaken]]) -> None:
        """Makes void every state on which a decision was made that the log refused."""
        for each, result in paired:
            if isinstance(result, Conflict | Unstorable):
                self.conflicts += isinstance(result, Conflict)
                self._aggregates.drop(each.incoming.message.run, each.aggregate)

    async def _settle_without_events(self, decided: Decided) -> Settled:
        if decided.doubt is not None:
            await self._resend(decided.doubt.run, decided.doubt.path, decided.doubt.sent + 1)
        elif not decided.refused:
            self.ignored += 1
        return Settled(decided.incoming, refused=decided.refused, barred=decided.barred)

    async def _decide_one(self, each: Incoming, now: datetime) -> Decided:
        if why := self._postponed.get(each.message.run):
            return postpone(each, why)
        try:
            if type(each.message) is QuarantineRun:
                return await self._aside.quarantine(each, each.message, now)
            return await self._decide_on_state(each, now)
        except SpendingUnread as error:
            self._postponed[each.message.run] = error
            return postpone(each, error)
        except Exception as error:
            raise_if_short(error)
            if _is_unavailable(error):
                raise
            return await self._aside.handle_unreadable(each, error, now)

    async def _decide_on_state(self, each: Incoming, now: datetime) -> Decided:
        run = each.message.run
        if each.unstorable:
            return discard(each, f"the log cannot record it: {each.unstorable}")
        if each.refused_on is not None and await self._is_recorded(each):
            return discard(each)
        aggregate = self._aggregates.known(run) or await self._load_aggregate(each)
        if aggregate.hash == each.refused_on:
            return discard(each, f"the log cannot record it: an event with the id {each.origin.id}.… is there already")
        refused = self._refusal(each, aggregate)
        if type(each.message) is EraseRun:
            refused = await why_not_erased(self.log, run, aggregate)
        elif type(each.message) is EditDraft:
            refused = await why_not_edited(self.log, each.message, aggregate.state)
        if refused:
            return Decided(each, aggregate, aggregate.hash, refused=refused, barred=True)
        aggregate, decision = await self._decide_on_latest(each, aggregate, now)
        if decision.events:
            return await self._encode_append(each, aggregate, decision, now)
        return decide_nothing(each, aggregate)

    async def _decide_on_latest(
        self, each: Incoming, aggregate: Aggregate, now: datetime
    ) -> tuple[Aggregate, Decision]:
        """Returns the decision and the state that it was made on.

        A message that changes nothing is decided on again if the log has newer events, and one that chooses an arm, or
        may take the verdict of another run again, once these are read.
        """
        run, message = each.message.run, each.message
        plan = message.plan if type(message) is StartRun else aggregate.state.plan
        others = NOTHING
        if plan.daily is not None and self._spent is not None:
            spent = await self._spent.of_others(plan.name, aggregate.state.started or now, run)
            others = less_repeated(spent, aggregate.repeated)
        if type(message) is Refined or (
            type(message) is Critiqued and (message.critique.issues or message.critique.criteria)
        ):
            each = await self._prove(each, aggregate)
        deferred = Deferred(run, self._known, self._earlier)
        lessons = await self._lessons_for(message, aggregate)
        decision = self._handle(aggregate.state, each, now, others, deferred, lessons)
        if not decision.events and (newer := await self._aggregates.newer(run, aggregate)) is not None:
            each = await self._prove(each, newer)
            aggregate, decision = newer, self._handle(newer.state, each, now, others, deferred, lessons)
        while deferred.was_asked:
            if await deferred.read(plan.name, partial(self._is_encrypted, aggregate)):
                decision = self._handle(aggregate.state, each, now, others, deferred, lessons)
        return aggregate, decision

    async def _lessons_for(self, message: Message, aggregate: Aggregate) -> Lessons | None:
        """Returns the lessons that a run is given as it begins; None for all else, and for a fork."""
        if not isinstance(message, StartRun) or message.parent is not None or aggregate.state.version:
            return None
        asked = message.plan.lessons
        return await self._lessons(asked.workflow or message.plan.name, asked.limit) if asked is not None else None

    async def _is_encrypted(self, aggregate: Aggregate) -> bool:
        """Returns whether a run is encrypted, or will be: then it takes nothing from others, and gives them nothing."""
        return aggregate.encrypted if aggregate.state.version else await self.log.require_sealing()

    async def _prove(self, each: Incoming, aggregate: Aggregate) -> Incoming:
        """Returns the message as the texts of its run bear it out; see `proving`."""
        message, state = each.message, aggregate.state
        if not isinstance(message, Critiqued | Refined):
            return each
        asked = state.open.get(message.path) or state.late.get(message.path)
        if asked is None or not needs_proof(message, asked):
            return each
        aggregate.texts = kept = aggregate.texts or RunTexts()
        texts = await kept.for_answer(message, asked, lambda after: self.log.read(message.run, after=after))
        return replace(each, message=proven(message, asked, texts, state.rules))

    def _refusal(self, each: Incoming, aggregate: Aggregate) -> str:
        """Returns why an answer is not accepted; empty for one that is, or that answers no open request.

        An answer that names the event it answers is accepted for that event alone: a log that was set back requests the
        same again.
        """
        message, state = each.message, aggregate.state
        if not isinstance(message, ANSWERS):
            return ""
        open_step = state.open.get(message.path) or state.late.get(message.path)
        if open_step is None or open_step.request.attempt != message.attempt:
            return ""
        if self.authority is not None and (refused := self.authority.first_refusal(each.users, open_step.request)):
            return refused
        cause, request = each.origin.causation, aggregate.request_ids.get(message.path, "")
        if cause in ("", request):
            return ""
        return f"it answers {shown(cause)}, and {message.path} was asked for by {shown(request)}: the log was set back"

    async def _encode_append(self, each: Incoming, aggregate: Aggregate, decision: Decision, now: datetime) -> Decided:
        run, on = each.message.run, aggregate.hash
        origin = self._with_trace(each, aggregate)
        events = new_events(origin, run, decision.events, now, each.past)
        if aggregate.state.version == 0 and not self._looked:
            await self.log.require_sealing()
            self._looked = True
        try:
            encoded = await self.log.encode(Append(run, aggregate.state.version, events, on), looked=self._looked)
        except CodecError as error:
            return await self._fail_unencodable(each, str(error), now)
        aggregate.encrypted = aggregate.encrypted or encoded.sealed
        for new in events:
            if type(new.data) is StepRequested:
                aggregate.note_request(new.origin.id, new.data)
        aggregate.advance(decision.state, encoded.hash)
        self._aggregates.keep(run, aggregate)
        return Decided(each, aggregate, on, encoded)

    def _with_trace(self, each: Incoming, aggregate: Aggregate) -> Origin:
        """Returns the origin of a message, with the trace of its run where it names none."""
        if aggregate.state.version == 0:
            aggregate.trace = each.origin.trace or self._new_trace(each.message.run)
        if each.origin.trace or not aggregate.trace:
            return each.origin
        return replace(each.origin, trace=aggregate.trace)

    async def _load_aggregate(self, each: Incoming) -> Aggregate:
        """Returns a run that is not in memory."""
        new = each.fresh and isinstance(each.message, StartRun)
        loaded = Aggregate() if new else await self._aggregates.load(each.message.run)
        if not loaded.state.version:
            loaded.repeated = usage_of(each.past)
        return loaded

    async def _is_recorded(self, each: Incoming) -> bool:
        """Returns whether the log already has this message's events, which an earlier append recorded."""
        return any(event.id == f"{each.origin.id}.0" for event in await self.log.read(each.message.run))

    def _handle(
        self,
        state: RunState,
        incoming: Incoming,
        now: datetime,
        others: Usage,
        deferred: Deferred,
        lessons: Lessons | None,
    ) -> Decision:
        message, choose, recall = incoming.message, deferred.choose, deferred.recall
        if incoming.past and isinstance(message, StartRun) and state.status == "new":
            return begin_fork(message, incoming.past, now, others, choose, recall)
        return handle(state, message, now, self.limit, others, choose, recall, self._queue_limit, lessons)

    async def _fail_unencodable(self, each: Incoming, why: str, now: datetime) -> Decided:
        """Returns a decision that fails the step whose outcome cannot be encoded, or else sets the run aside."""
        message = each.message
        if isinstance(message, StartRun):
            return discard(each, why)
        if isinstance(message, OutcomeMessage):
            failed = Failed(message.run, message.path, message.attempt, "invalid", why, retryable=False)
            if message != failed:
                return await self._decide_on_state(replace(each, message=failed), now)
        return await self._aside.set_aside(each, why, now)


def _is_unavailable(error: Exception) -> bool:
    """Returns whether the error means that store or bus are away, rather than that the run is wrong."""
    if isinstance(error, StoreError):
        return not isinstance(error, Tampered | EncryptionKeyMissing)
    return isinstance(error, BusError | OSError)
