"""The calls that a worker runs for one actor, and the finished ones that it has not reported yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, TypeAlias

import msgspec
from cachetools import LRUCache

from redraft.actors.runtime.working.absence import NEVER, Absence
from redraft.actors.runtime.working.call import Call, OnError, RunningCall, abandon_calls, unwritable_outcome
from redraft.actors.runtime.working.call_tracing import CallSpan, CallTracer
from redraft.actors.runtime.working.in_flight import InFlightRequests
from redraft.actors.values import ignore
from redraft.actors.workflow.actor import Actor
from redraft.events.bus.port import BusMessage, Delivery, reply_queue
from redraft.events.errors import ContentError, InputError
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import ROLES, ConfirmStep, Message, OutcomeMessage, Request, Work
from redraft.events.messages.envelope import Origin

REMEMBERED: Final = 4096
"""The number of requests that are remembered: those the coordinator was asked about, and those that others had."""

TRUSTED: Final = timedelta(minutes=1)
"""How long a confirmation is trusted of a request that seems to have been in the queue before its reader."""

ALONE: Final = 5
"""A request that was sent this often runs alone: two workers that had it vanished, and each costs two sendings."""

StartIsolated: TypeAlias = Callable[[Actor, Work, Callable[[], None], bool], RunningCall]
"""Begins a call in a child process and calls back when it has ended; the `bool` is true if it must run alone."""

OnRestart: TypeAlias = Callable[[Request], None]
"""Called for a request that an earlier worker may already have paid for without returning an answer."""

Clock: TypeAlias = Callable[[], datetime]
"""Returns the current time (UTC)."""


def utc_now() -> datetime:
    """Returns the time by this machine's clock."""
    return datetime.now(UTC)


Differs: TypeAlias = Callable[[Actor, str, str], None]
"""Called with an actor, the version that a plan names instead of the actor's, and the run of that plan."""

MAX_DIFFERENCES: Final = 1000
"""The number of different versions that are reported; others are not."""


class Signatures:
    """Signs answers. `differs` is called once for each version of an actor that a plan names and the actor has not."""

    def __init__(self, differs: Differs = ignore) -> None:
        self._differs = differs
        self._reported: set[tuple[Actor, str]] = set()

    def of(self, actor: Actor, request: Request) -> str:
        """Returns who answers a request: `critic judge`; `critic judge@VERSION` when the plan names another version."""
        version = request.version
        if not version or version == actor.version:
            return f"{actor.role} {actor.name}"
        if (actor, version) not in self._reported and len(self._reported) < MAX_DIFFERENCES:
            self._reported.add((actor, version))
            self._differs(actor, version, request.run)
        return f"{actor.role} {actor.name}@{actor.version or '?'}"


class Finished(msgspec.Struct, frozen=True):
    """A request that is done with: its call has ended, or the coordinator has to confirm it first.

    `result` is None if the request's run was cancelled.
    """

    delivery: Delivery
    work: Work
    result: RunningCall | ConfirmStep | None


class CallSettings(msgspec.Struct, frozen=True):
    """The settings of a worker for its calls.

    `new_id` makes the ids of outcomes; `limit` is the largest draft and `largest` the largest message, in bytes.
    `on_restart` is called for a request that is begun again because its earlier worker never answered. A request that
    waited longer than `queue_limit`, or during an `absence`, is confirmed first. `start_isolated` begins the calls of
    isolated actors, and of requests whose workers vanished again and again. `on_error` is called with exceptions of
    functions. `tracer` begins a span for each call, if any.
    """

    new_id: Callable[[], str]
    limit: int
    largest: int
    on_restart: OnRestart
    queue_limit: timedelta
    absence: Absence
    start_isolated: StartIsolated | None
    on_error: OnError
    tracer: CallTracer | None = None


class ActiveCalls:
    """Begins, cancels and collects the calls of one actor.

    `signatures` name who answers; `in_flight` knows which worker holds which request; `cancelled` are runs for which
    nothing more is done.
    """

    def __init__(
        self,
        actor: Actor,
        settings: CallSettings,
        signatures: Signatures,
        in_flight: InFlightRequests,
        cancelled: Container[str],
    ) -> None:
        self._actor = actor
        self._settings = settings
        self._signatures = signatures
        self._in_flight = in_flight
        self._cancelled = cancelled
        self._calls: dict[int, tuple[RunningCall, Delivery, Work]] = {}
        self._spans: dict[int, CallSpan] = {}
        self._begun: dict[str, None] = {}
        self._doubtful: set[asyncio.Task[None]] = set()
        self._finished: list[Finished] = []
        self._inquiries: LRUCache[str, datetime] = LRUCache(REMEMBERED)
        self._redelivered: LRUCache[str, None] = LRUCache(REMEMBERED)
        self._closed = False
        self._changed = asyncio.Event()

    def require_ours(self, work: Work) -> None:
        """Raises InputError for a request that is for another actor and was put into the wrong queue."""
        role, name = ROLES[type(work)], work.request.actor
        if (role, name) != (self._actor.role, self._actor.name):
            here = f"the {self._actor.role} {self._actor.name}"
            raise InputError(f"it is for the {role} {name[:100]!r}, but is in the queue of {here}")

    def begin(self, delivery: Delivery, work: Work, now: datetime) -> None:
        """Begins the work; asks first if it may be done already, may be stale, or another worker may have it."""
        request = work.request
        stale = self._may_be_stale(request, delivery, now)
        if delivery.count > 1:
            self._redelivered[request.id] = None
        if request.run in self._cancelled:
            self._finish(Finished(delivery, work, None))
        elif stale and delivery.count == request.sent == 1:
            self._inquiries[request.id] = now
            self._finish(Finished(delivery, work, ConfirmStep(request.run, request.path, request.attempt, 0)))
        elif self._is_new(request) and self._in_flight.begin(request.id):
            self._start_call(delivery, work)
        else:
            confirmed = request.confirmed and delivery.count == 1 and not stale
            inquiry = asyncio.create_task(self._begin_when_free(delivery, work, confirmed=confirmed))
            self._doubtful.add(inquiry)
            inquiry.add_done_callback(self._doubtful.discard)

    def _is_new(self, request: Request) -> bool:
        """Returns whether nothing says that another worker had the request.

        A relay that was killed just after it had sent a request sends it once more, as if for the first time, beside
        the copy that is delivered again.
        """
        return request.sent == 1 and request.id not in self._redelivered

    def _may_be_stale(self, request: Request, delivery: Delivery, now: datetime) -> bool:
        """Returns whether the run may have given the request up, or been cancelled, while it waited.

        It may if it is old, was in the queue before this worker, or was here while this worker was absent. One that
        this worker asked about after that comes back confirmed.
        """
        inquired = self._inquiries.get(request.id, NEVER) if request.confirmed else NEVER
        if self._is_old(request, now) or (delivery.waited and now - inquired >= TRUSTED):
            return True
        known, back = request.confirmed_at or request.asked, self._settings.absence.until
        return known is not None and max(known, inquired) < back

    def _is_old(self, request: Request, now: datetime) -> bool:
        """Returns whether a request has waited longer than the limit.

        A coordinator that confirms such a request allows more, and is asked again only after as long a time.
        """
        limit, asked, confirmed = self._settings.queue_limit, request.asked, request.confirmed_at
        if asked is None or now - asked < limit:
            return False
        return confirmed is None or confirmed - asked < limit or now - confirmed >= limit

    async def _begin_when_free(self, delivery: Delivery, work: Work, *, confirmed: bool) -> None:
        """Waits while another worker has the request, then begins it if it is confirmed as unanswered."""
        request = work.request
        waited = await self._in_flight.begin_alone(request.id)
        if not self._closed and request.run not in self._cancelled and not waited and confirmed:
            self._settings.on_restart(request)
            self._start_call(delivery, work)
            return
        self._in_flight.end(request.id, worked=False)
        if request.run in self._cancelled:
            self._finish(Finished(delivery, work, None))
        elif not self._closed:  # else it is given back
            sent = request.sent + delivery.count - 1
            self._finish(Finished(delivery, work, ConfirmStep(request.run, request.path, request.attempt, sent)))

    def _start_call(self, delivery: Delivery, work: Work) -> None:
        on_end = partial(self._finish_call, delivery, work)
        if self._settings.tracer is None:
            call = self._make_call(work, on_end)
        else:
            span = self._settings.tracer.start(self._actor, work, delivery.bus_message.origin)
            self._spans[delivery.tag] = span
            call = span.context.run(self._make_call, work, on_end)
        self._calls[delivery.tag] = call, delivery, work
        self._begun[work.request.id] = None

    def _make_call(self, work: Work, on_end: Callable[[], None]) -> RunningCall:
        alone = work.request.sent >= ALONE
        if self._settings.start_isolated is not None and (alone or self._actor.isolation == "process"):
            return self._settings.start_isolated(self._actor, work, on_end, alone)
        return Call(self._actor, work, on_end, on_error=self._settings.on_error)

    def cancel_run(self, run: str) -> None:
        """Cancels all calls of a run; their results are not reported."""
        for tag, (call, delivery, work) in list(self._calls.items()):
            if work.request.run == run:
                del self._calls[tag]
                self._end(work)
                call.abandon()
                self._end_span(tag, None)
                self._finish(Finished(delivery, work, None))

    async def take_finished(self) -> Sequence[Finished]:
        """Waits until a request is finished and returns all that are; nothing once closed with no call left."""
        while not self._finished and (self._calls or not self._closed):
            self._changed.clear()
            await self._changed.wait()
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """Begins no more calls."""
        self._closed = True
        self._changed.set()

    async def abandon(self) -> None:
        """Cancels all calls and inquiries without reporting any result."""
        for inquiry in self._doubtful:
            inquiry.cancel()
        calls = [call for call, _, _ in self._calls.values()]
        for tag in list(self._spans):
            self._end_span(tag, None)
        for request in self._begun:
            self._in_flight.end(request)
        self._begun.clear()
        self._calls.clear()
        await abandon_calls(calls)

    def bus_message(self, finished: Finished) -> BusMessage | None:
        """Returns the message that reports a finished request; None if there is nothing to report."""
        result = finished.result
        if result is None:
            return None
        message: Message
        if isinstance(result, ConfirmStep):
            message = result
        else:
            message = outcome = result.outcome(self._settings.limit)
            if self._spans:
                self._end_span(finished.delivery.tag, outcome)
        try:
            name, body = encode_message(message)
        except (UnicodeEncodeError, msgspec.MsgspecError) as error:
            message = unwritable_outcome(self._actor, finished.work, error)
            name, body = encode_message(message)
        if len(body) > self._settings.largest:
            fault = ContentError(
                f"{len(body):,} bytes as a message, more than the {self._settings.largest:,} that can be sent"
            )
            message = unwritable_outcome(self._actor, finished.work, fault)
            name, body = encode_message(message)
        came = finished.delivery.bus_message.origin
        who = self._signatures.of(self._actor, finished.work.request)
        origin = Origin(self._settings.new_id(), who, came.id, came.correlation, came.trace)
        return BusMessage(name, body, origin, message.run, message, reply_queue(finished.work.request.reply_key))

    def _end_span(self, tag: int, outcome: OutcomeMessage | None) -> None:
        if (span := self._spans.pop(tag, None)) is not None:
            span.end(outcome)

    def mark_reported(self, finished: Sequence[Finished]) -> None:
        """Releases requests whose outcomes are on the bus: this worker no longer holds them."""
        for each in finished:
            if each.result is not None and type(each.result) is not ConfirmStep:
                request = each.work.request.id
                self._begun.pop(request, None)
                self._in_flight.end(request)

    def _end(self, work: Work) -> None:
        self._begun.pop(work.request.id, None)
        self._in_flight.end(work.request.id)

    def _finish_call(self, delivery: Delivery, work: Work) -> None:
        call, _, _ = self._calls.pop(delivery.tag)
        self._finish(Finished(delivery, work, call))

    def _finish(self, finished: Finished) -> None:
        self._finished.append(finished)
        self._changed.set()
