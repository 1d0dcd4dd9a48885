"""What was parked reaches the coordinator as a failed step, so that no run waits for what will not come.

A request that was parked (nobody could read it, or it was delivered too often) is answered in its worker's place: the
step failed, kind `lost`, to be tried again as the plan says. So is a parked answer, for the request that it belongs to.
The letter itself stays parked, for people to look at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from msgspec.structs import replace

from redraft.actors.admission import LONGEST_ID
from redraft.actors.authority import Authority
from redraft.events.bus import INBOX, LONGEST_ATTRIBUTE, Bus, Letter, Parked
from redraft.events.codec import decode_work, encode_message
from redraft.events.commands import WORK_NAMES, Failed
from redraft.events.domain_events import StepRequested
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import CodecError, StoreError, Tampered

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

EVERY: Final = 5.0
"""Seconds between two looks at how much is parked."""

AT_LEAST_EVERY: Final = 600.0
"""Seconds after which the letters are looked at though their number is the same."""

LARGEST: Final = 64 * 1024
"""Bytes of what is told at most: what a stranger calls a path may be of any size."""

_LONGEST: Final = 500
_REQUESTS: Final = frozenset(WORK_NAMES.values())


class Log(Protocol):
    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...


class _Seen(NamedTuple):
    """A parked letter without its body, and the failure of the request in it, where it is one that can be read."""

    id: str
    parked: Parked
    asked: Failed | None


class LostSteps:
    """Looks at what is parked on a bus. `new_id` makes the ids of its messages.

    With an `authority`, a letter from a user who may not answer for its step fails no step.
    """

    def __init__(
        self,
        store: Log,
        bus: Bus,
        new_id: Callable[[], str],
        log: FilteringBoundLogger,
        authority: Authority | None = None,
    ) -> None:
        self._authority = authority
        self._store = store
        self._bus = bus
        self._new_id = new_id
        self._log = log
        self._told: set[str] = set()

    async def run(self, count: Callable[[], Awaitable[int]], every: float = EVERY) -> None:
        """Looks now and whenever the `count` of what is parked has changed, until it is cancelled.

        To look is dear where the letters are on a server: all of them pass by. To count is not.
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
        """Tells the coordinator of each request that is parked and was not told of; gives the number of them."""
        parked = await self._bus.parked(self._seen)
        self._told &= {each.id for each in parked}
        fresh = [each for each in parked if each.id not in self._told]
        letters: list[Letter] = []
        for each in fresh:
            head = each.parked
            self._log.warning(
                "parked", id=each.id, queue=head.queue, name=head.letter.name, run=head.letter.run, reason=head.reason
            )
            failed = await self._failed(head, each.asked)
            if failed is not None:
                letters.append(self._letter(failed, head))
        letters = [each for each in letters if len(each.body) <= LARGEST]
        if letters:
            await self._bus.publish(INBOX, letters)
        self._told |= {each.id for each in fresh}
        return len(letters)

    def _seen(self, parked: Parked) -> _Seen:
        asked = None if parked.id in self._told else _of_request(parked)
        return _Seen(parked.id, replace(parked, letter=replace(parked.letter, body=b"")), asked)

    async def _failed(self, parked: Parked, asked: Failed | None) -> Failed | None:
        try:
            events = await self._events(asked.run if asked else parked.letter.run)
            failed = asked or _of_run(parked, events)
            return failed if failed and events and self._may_say(parked.user, failed, events) else None
        except (CodecError, Tampered):  # a run that cannot be read here is its coordinator's
            return None

    def _may_say(self, user: str, failed: Failed, events: Sequence[Recorded]) -> bool:
        """Whether a user may answer for the step. The latest request counts: a fork may ask another actor."""
        if self._authority is None:
            return True
        requests = (each.data for each in reversed(events) if isinstance(each.data, StepRequested))
        asked = next((each for each in requests if each.path == failed.path), None)
        return asked is not None and not self._authority.refusal(user, asked)

    async def _events(self, run: str) -> Sequence[Recorded]:
        try:
            return await self._store.read(run) if run.isprintable() and 0 < len(run) <= LONGEST_ID else ()
        except StoreError as error:
            if run:
                raise
            self._log.warning("not read", run=run, error=str(error))
            return ()

    def _letter(self, failed: Failed, parked: Parked) -> Letter:
        name, body = encode_message(failed)
        came = parked.letter.origin
        cause, trace = (each if len(each) <= LONGEST_ATTRIBUTE else "" for each in (_asked_by(parked), came.trace))
        return Letter(name, body, Origin(self._new_id(), "coordinator", cause, failed.run, trace), failed.run)


def _of_request(parked: Parked) -> Failed | None:
    """The failure of a request that can be read."""
    if parked.letter.name not in _REQUESTS:
        return None
    try:
        request = decode_work(parked.letter.name, parked.letter.body).request
    except CodecError:
        return None
    return Failed(request.run, request.path, request.attempt, "lost", _said(parked))


def _of_run(parked: Parked, events: Sequence[Recorded]) -> Failed | None:
    """The failure of the request that this letter is, or answers: it names the event that asked for it."""
    cause = _asked_by(parked)
    asked = next((each for each in events if each.id == cause and isinstance(each.data, StepRequested)), None)
    if asked is None or not isinstance(asked.data, StepRequested):
        return None
    return Failed(asked.run, asked.data.path, asked.data.attempt, "lost", _said(parked))


def _asked_by(parked: Parked) -> str:
    """The id of the event that asked for the work: a request has it as its own, an answer as its cause."""
    came = parked.letter.origin
    return came.causation if parked.queue == INBOX and parked.letter.name not in _REQUESTS else came.id


def _said(parked: Parked) -> str:
    return f"set aside from {parked.queue or 'an unknown queue'} as {parked.id}: {parked.reason}"[:_LONGEST]
