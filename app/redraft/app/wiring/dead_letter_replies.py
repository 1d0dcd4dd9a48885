"""Answers for dead letters: the coordinator gets a failed step for each, so that no run waits for ever.

A dead-lettered request (nobody could read it, or it was delivered too often) is answered in its worker's place: the
step failed, kind `lost`, to be retried as the plan says. The same goes for a dead-lettered answer, by the request that
it belongs to. The message itself stays a dead letter, for people to look at. A dead-lettered start of a run that was
never begun ends the waits for it in its own process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec.structs import replace

from redraft.actors.runtime.admission import LONGEST_ID, Authority
from redraft.actors.values import ignore
from redraft.events.bus.port import INBOX, LONGEST_ATTRIBUTE, Bus, BusMessage, DeadLetter, is_inbox, size_of
from redraft.events.errors import CodecError, Tampered
from redraft.events.messages.codec import decode_work, encode_message
from redraft.events.messages.commands import MESSAGE_NAMES, WORK_NAMES, Failed, StartRun
from redraft.events.messages.domain_events import StepRequested
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.store.event_store import EventStore

EVERY: Final = 5.0
"""Seconds between two looks at the number of dead letters."""

AT_LEAST_EVERY: Final = 600.0
"""Seconds after which the messages are looked at though their number is the same."""

LARGEST: Final = 64 * 1024
"""The largest number of bytes of a reported text: a path in a stranger's message may have any size."""

_LONGEST: Final = 500
_REQUESTS: Final = frozenset(WORK_NAMES.values())


class DeadLetterReplies:
    """Looks at the dead letters of a bus. `new_id` makes the ids of its messages; `tell` is called for each new one.

    With an `authority`, a message from a user who may not answer for its step fails no step. `never_begun` is called
    with each run that is not in the log, and a start of which was set aside, and with the reason.
    """

    def __init__(
        self,
        store: EventStore,
        bus: Bus,
        new_id: Callable[[], str],
        tell: Callable[[DeadLetter], object],
        authority: Authority | None = None,
        never_begun: Callable[[str, str], object] = ignore,
    ) -> None:
        self._authority = authority
        self._never_begun = never_begun
        self._store = store
        self._bus = bus
        self._new_id = new_id
        self._tell = tell
        self._replied: set[str] = set()

    async def run(self, count: Callable[[], Awaitable[int]], every: float = EVERY) -> None:
        """Looks now and whenever the `count` of dead letters has changed, until it is cancelled.

        To look is dear where the messages are on a server: all of them pass by. To count is not.
        """
        clock = asyncio.get_running_loop().time
        seen, looked = 0, clock()
        while True:
            there = await count()
            if there and (there != seen or clock() - looked > AT_LEAST_EVERY):
                await self.look()
                looked = clock()
            seen = there
            await asyncio.sleep(every)

    async def look(self) -> int:
        """Reports each dead-lettered request to the coordinator, once; returns the number of those reported now."""
        seen = await self._bus.dead_letters(self._without_body)
        self._replied &= {each.id for each, _ in seen}
        fresh = [each for each in seen if each[0].id not in self._replied]
        bus_messages: list[BusMessage] = []
        for head, known in fresh:
            self._tell(head)
            failed = await self._find_failed(head, known)
            if failed is not None:
                bus_messages.append(self._failure_message(failed, head))
        bus_messages = [each for each in bus_messages if len(each.body) <= LARGEST]
        if bus_messages:
            await self._bus.publish(INBOX, bus_messages)
        self._replied |= {each.id for each, _ in fresh}
        return len(bus_messages)

    def _without_body(self, dead_letter: DeadLetter) -> tuple[DeadLetter, Failed | None]:
        """Returns a dead letter without its body, and the failure of the request in it, where it can be read."""
        failed = None if dead_letter.id in self._replied else _of_request(dead_letter)
        return replace(dead_letter, bus_message=replace(dead_letter.bus_message, body=b"")), failed

    async def _find_failed(self, dead_letter: DeadLetter, known: Failed | None) -> Failed | None:
        run = known.run if known else dead_letter.bus_message.run
        if not run.isprintable() or not 0 < len(run) <= LONGEST_ID:
            return None
        try:
            events = await self._store.read(run)
            if not events and dead_letter.bus_message.name == MESSAGE_NAMES[StartRun]:
                self._never_begun(run, dead_letter.reason)
            failed = known or _of_run(dead_letter, events)
            return failed if failed and events and self._may_say(dead_letter.users, failed, events) else None
        except (CodecError, Tampered):  # a run that cannot be read here is its coordinator's
            return None

    def _may_say(self, users: Sequence[str], failed: Failed, events: Sequence[Recorded]) -> bool:
        """Returns whether users may answer for the step. The latest request counts: a fork may ask another actor."""
        if self._authority is None:
            return True
        requests = (each.data for each in reversed(events) if isinstance(each.data, StepRequested))
        asked = next((each for each in requests if each.path == failed.path), None)
        return asked is not None and not self._authority.first_refusal(users, asked)

    def _failure_message(self, failed: Failed, dead_letter: DeadLetter) -> BusMessage:
        name, body = encode_message(failed)
        came = dead_letter.bus_message.origin
        cause, trace = (
            each if size_of(each) <= LONGEST_ATTRIBUTE else "" for each in (_request_id(dead_letter), came.trace)
        )
        return BusMessage(name, body, Origin(self._new_id(), "coordinator", cause, failed.run, trace), failed.run)


def _of_request(dead_letter: DeadLetter) -> Failed | None:
    if dead_letter.bus_message.name not in _REQUESTS:
        return None
    try:
        request = decode_work(dead_letter.bus_message.name, dead_letter.bus_message.body).request
    except CodecError:
        return None
    return Failed(request.run, request.path, request.attempt, "lost", _loss_reason(dead_letter))


def _of_run(dead_letter: DeadLetter, events: Sequence[Recorded]) -> Failed | None:
    """The failure of the request that this message is, or answers: it names the event that asked for it."""
    cause = _request_id(dead_letter)
    asked = next((each for each in events if each.id == cause and isinstance(each.data, StepRequested)), None)
    if asked is None or not isinstance(asked.data, StepRequested):
        return None
    return Failed(asked.run, asked.data.path, asked.data.attempt, "lost", _loss_reason(dead_letter))


def _request_id(dead_letter: DeadLetter) -> str:
    """The id of the event that asked for the work: a request has it as its own, an answer as its cause."""
    came = dead_letter.bus_message.origin
    is_answer = is_inbox(dead_letter.queue) and dead_letter.bus_message.name not in _REQUESTS
    return came.causation if is_answer else came.id


def _loss_reason(dead_letter: DeadLetter) -> str:
    return f"set aside from {dead_letter.queue or 'an unknown queue'} as {dead_letter.id}: {dead_letter.reason}"[
        :_LONGEST
    ]
