"""Sets aside runs whose events cannot be followed, so that one such run affects no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeAlias

from cachetools import LRUCache

from redraft.actors.runtime.coordinating.aggregates import Aggregate, Aggregates
from redraft.actors.runtime.coordinating.decisions import Decided, Incoming, discard, new_events
from redraft.actors.runtime.relaying.queue_publisher import belongs_elsewhere, error_message
from redraft.events.errors import InputError, NoSuchRun, RunBarred
from redraft.events.messages.codec import encode_said, hash_of
from redraft.events.messages.commands import ConfirmStep, EraseRun, ExpireStep, Message, QuarantineRun, RetryStep
from redraft.events.messages.domain_events import RunEnded, RunErased, RunQuarantined
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.store.append import SEALED, Append, Encoded

Report: TypeAlias = Callable[[str, str], None]
"""Called with a run that was set aside or cannot be handled here, and with the reason."""

MACHINERY: Final = "coordinator"
"""The actor recorded when a run is set aside because its events cannot be followed."""

REPORTED: Final = 1024
"""The number of runs that are remembered as reported."""

_QUARANTINED: Final = EVENT_NAMES[RunQuarantined]
_OVER: Final = frozenset({EVENT_NAMES[RunEnded], _QUARANTINED})

Rows: TypeAlias = Sequence[tuple[int, str, bytes, int]]
"""The rows of a run, as `RowStore.raw` returns them."""


class RowStore(Protocol):
    """Reads the rows of a run without decoding them, and encodes an append to it."""

    async def encode(self, append: Append, *, looked: bool = False) -> Encoded: ...

    async def raw(self, run: str) -> Rows: ...

    async def has_key(self, run: str) -> bool: ...


def _why_unwritable(message: Message) -> str:
    """Returns why a message cannot be written, nor an event of it; empty if it can be."""
    try:
        encode_said(message)
    except InputError as error:
        return str(error)
    return ""


def is_sealed(rows: Rows) -> bool:
    """Returns whether a run is encrypted, whatever is wrong with its rows: a stranger's may hold any value."""
    states: Iterator[object] = (state for _, _, state, _ in rows)
    return any(isinstance(state, bytes) and SEALED in state for state in states)


class SettingAside:
    """Decides on runs that are not folded. `report` is called once for each that is set aside or left to others."""

    def __init__(self, log: RowStore, aggregates: Aggregates, report: Report) -> None:
        self._log = log
        self._aggregates = aggregates
        self._report = report
        self._reported: LRUCache[str, str] = LRUCache(REPORTED)

    async def handle_unreadable(self, each: Incoming, error: Exception, now: datetime) -> Decided:
        """Returns a decision that sets aside a run whose events cannot be read or folded.

        A run of a later release, or one that is encrypted with a key that is missing here, may be handled elsewhere:
        nothing is recorded of it, and the message is refused. Messages of the timekeeper are ignored instead: they come
        again. The erasure of a run that is over is recorded all the same. A run that may never begin is ignored: its
        message, with the texts of a run that was erased, is not kept as a dead letter.
        """
        if isinstance(error, RunBarred):
            return discard(each)
        if isinstance(each.message, EraseRun):
            return await self._erase(each, each.message, now)
        why = error_message(error)
        if not belongs_elsewhere(error):
            return await self.set_aside(each, f"its events cannot be followed: {why}", now)
        self._report_once(each.message.run, why)
        return discard(each, "" if isinstance(each.message, RetryStep | ExpireStep | ConfirmStep) else why)

    async def set_aside(self, each: Incoming, why: str, now: datetime) -> Decided:
        """Returns a decision that sets the run of a message aside, and reports the run.

        One that itself cannot be written (half a character in its words) is refused: nothing is wrong with the run.
        """
        if said := _why_unwritable(each.message):
            return discard(each, said)
        self._report_once(each.message.run, why)
        return await self.quarantine(each, QuarantineRun(each.message.run, MACHINERY, why), now)

    async def quarantine(self, each: Incoming, command: QuarantineRun, now: datetime) -> Decided:
        """Returns a decision that sets a run aside without folding it, with an event after its last one."""
        try:
            rows = await self._log.raw(command.run)
        except NoSuchRun as error:
            return discard(each, str(error) if isinstance(each.message, QuarantineRun) else command.reason)
        event = RunQuarantined(command.by, command.reason, command.key)
        return await self._append(each, rows, event, "cannot be set aside", now)

    async def _erase(self, each: Incoming, command: EraseRun, now: datetime) -> Decided:
        """Returns a decision that records the erasure of a run that is over, and whose key is gone."""
        run, rows = command.run, await self._log.raw(command.run)
        if not any(name in _OVER for _, name, _, _ in rows) or await self._log.has_key(run):
            return discard(each, f"run {run} is not erased: it goes on, or its key is there")
        if not is_sealed(rows):
            return discard(each, f"run {run} is not erased: it was recorded in the clear, and its texts can be read")
        event = RunErased(command.by, command.reason)
        return await self._append(each, rows, event, "takes no record of its erasure", now)

    async def _append(
        self, each: Incoming, rows: Rows, event: RunQuarantined | RunErased, fault: str, now: datetime
    ) -> Decided:
        """Returns a decision that appends an event after the last row of a run, unless it has one of its kind."""
        run, (version, _, state, _) = each.message.run, rows[-1]
        on = hash_of(state)
        if on == each.refused_on:
            return discard(each, f"run {run} {fault}: the log refuses an event after its last one")
        if any(name == EVENT_NAMES[type(event)] for _, name, _, _ in rows):
            return discard(each)
        append = Append(run, version, new_events(each.origin, run, [event], now), on)
        known = self._aggregates.known(run)
        if known is not None:
            self._aggregates.drop(run, known)
        return Decided(each, Aggregate(), on, await self._log.encode(append))

    def _report_once(self, run: str, why: str) -> None:
        """Reports a run, unless it was last reported with this reason and is among the last `REPORTED` runs."""
        if self._reported.get(run) != why:
            self._report(run, why)
        self._reported[run] = why
