"""Checks a run's rows, each readable and linked to the one before, and the order of its events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from redraft.events.errors import CodecError, EncryptionKeyMissing, StoreError, UnknownName, UnknownRules
from redraft.events.messages import domain_events as events
from redraft.events.messages.codec import GENESIS, Opener, decode_event, is_version
from redraft.events.messages.domain_events import Steered
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Repeat, loops_of
from redraft.events.messages.redaction import ERASED
from redraft.projections.record_check.files import FilesOfRun


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fault: a short stable `code`, a sentence that explains it, and the place.

    `version` is that of the event in its run, `position` its place in the log (0: not known).
    """

    code: str
    message: str
    run: str
    version: int
    position: int = 0


class Deviates(Exception):
    """An event is not what the plan and the earlier events call for."""

    def __init__(self, code: str, event: Recorded, message: str) -> None:
        super().__init__(message)
        self.finding = finding_at(code, event, message)


def finding_at(code: str, event: Recorded, message: str) -> Finding:
    """Returns a finding at this event."""
    where = f"event {event.version} of run {event.run} ({event.name})"
    return Finding(code, f"{where}: {message}", event.run, event.version, event.position)


class Row(msgspec.Struct, frozen=True):
    """An event as stored: version in its run, name and bytes, position in the log (0: not known)."""

    version: int
    name: str
    state: bytes
    position: int = 0


def decode_rows(run: str, rows: Iterable[Row], opener: Opener | None = None) -> tuple[list[Recorded], list[Finding]]:
    """Returns the events that can be read, and a finding for each that cannot."""
    decoded: list[Recorded] = []
    findings: list[Finding] = []
    files = FilesOfRun()
    for row in rows:
        try:
            decoded.append(files.take(_decode_row(run, row, opener)))
        except (UnknownName, UnknownRules) as error:
            findings.append(_row_finding("later-release", run, row, str(error)))
        except (CodecError, StoreError, TypeError, AttributeError) as error:
            findings.append(_row_finding("unreadable", run, row, f"it cannot be read: {error}"))
    return decoded, findings


def chain_faults(stream: Sequence[Recorded]) -> list[Finding]:
    """Returns the faults of versions, ids and hash links, in the order of the run."""
    findings: list[Finding] = []
    ids: dict[str, int] = {}
    version, before = 0, GENESIS
    for event in stream:
        if event.version <= version:
            findings.append(finding_at("double", event, f"there is an event {event.version} before it"))
        elif event.version > version + 1:
            missing = f"{version + 1}" if event.version == version + 2 else f"{version + 1} to {event.version - 1}"
            findings.append(finding_at("gap", event, f"event {missing} is missing before it"))
        elif event.previous != before:
            findings.append(finding_at("previous", event, "it does not build on the event before it"))
        if event.id in ids:
            findings.append(finding_at("id-twice", event, f"its id {event.id} is that of event {ids[event.id]} too"))
        ids.setdefault(event.id, event.version)
        version, before = max(version, event.version), event.hash
    return findings


def _decode_row(run: str, row: Row, opener: Opener | None) -> Recorded:
    if not is_version(row.version):
        raise CodecError("its version is no integer")
    try:
        return decode_event(run, row.version, row.name, row.state, row.position, opener)
    except EncryptionKeyMissing:  # the key is not at hand: its structure can be read
        return decode_event(run, row.version, row.name, row.state, row.position)


def _row_finding(code: str, run: str, row: Row, message: str) -> Finding:
    version = row.version if is_version(row.version) else 0
    return Finding(code, f"event {row.version} of run {run} ({row.name}): {message}", run, version, row.position)


QUARANTINED: Final = "run.quarantined."
"""The prefix of the stored name of the event that sets a run aside."""

ENDED: Final = "has ended"

_REMEMBERED: Final = 64


def order_faults(stream: Sequence[Recorded]) -> list[Finding]:
    """Returns the faults in the order of a run's events, whatever the answers were."""
    if not stream:
        return []
    check = _Order(stream[0].data)
    for before, event in zip((None, *stream), stream, strict=False):
        check.take(before, event)
    return check.findings


def is_set_aside(stream: Sequence[Recorded]) -> bool:
    """Returns whether a person has quarantined the run."""
    return any(event.name.startswith(QUARANTINED) for event in stream)


class _Order:
    def __init__(self, begun: object) -> None:
        self.findings: list[Finding] = []
        known = begun if isinstance(begun, events.RunStarted) else None
        self._inherited = known.parent.version if known and known.parent else 0
        self._loops: dict[str, Repeat] = dict(loops_of(known.plan.steps)) if known else {}
        self._limits: dict[str, int] = {}
        self._iterations: dict[str, int] = {}
        self._keys: deque[str] = deque(maxlen=_REMEMBERED)
        self._last = ""

    def take(self, before: Recorded | None, event: Recorded) -> None:
        self._follow(before, event)
        self._repeat(event)
        self._count(event)
        self._listen(event)

    def _follow(self, before: Recorded | None, event: Recorded) -> None:
        data = event.data
        if (before is None) != isinstance(data, events.RunStarted):
            self._flag("beginning", event, "a run begins once, with its start")
        is_quarantine = event.name.startswith(QUARANTINED)
        strikes = isinstance(data, events.LessonStruck)
        may_follow = isinstance(data, events.RunErased) or ((is_quarantine or strikes) and self._last == ENDED)
        if self._last and not may_follow:
            self._flag("after-end", event, f"nothing but its erasure may follow once the run {self._last}")
        if isinstance(data, events.RunEnded):
            self._last = ENDED
        elif is_quarantine:
            self._last = "is set aside"
        credited = before is not None and isinstance(before.data, events.ChoicesCredited)
        if credited and not isinstance(data, events.RunEnded) and event.version != self._inherited + 1:
            self._flag("credits", event, "the end of the run has to follow what is credited")

    def _repeat(self, event: Recorded) -> None:
        repeats = 1 < event.version <= self._inherited
        if bool(event.repeats) != repeats:
            said = "repeats an event of its parent" if repeats else "repeats no event"
            self._flag("fork", event, f"it {said}, and does not say so" if repeats else f"it {said}, and says so")

    def _count(self, event: Recorded) -> None:
        match event.data:
            case events.IterationStarted(path=path, iteration=number):
                last = self._iterations.get(path, 0)
                if number != last + 1:
                    self._flag("iteration", event, f"iteration {number} follows {last} of {path}")
                place = "/".join(part.partition("[")[0] for part in path.split("/"))
                loop = self._loops.get(place)
                most = self._limits.get(place, loop.max_iterations if loop else 0)
                if number > most and event.version > self._inherited:
                    self._flag("iteration", event, f"{path} may have {most} iterations")
                self._iterations[path] = number
            case events.LoopEnded(path=path, iterations=number) if number != self._iterations.get(path, 0):
                self._flag("iteration", event, f"{self._iterations.get(path, 0)} iterations of {path} had begun")
            case events.LimitsChanged(path=path, max_iterations=most) if most is not None:
                self._limits[path] = most
            case _:
                pass

    def _listen(self, event: Recorded) -> None:
        if not isinstance(event.data, Steered) or not event.data.key:
            return
        if event.encrypted and event.data.key == ERASED:
            return  # what stands in place of each key that cannot be read
        if event.data.key in self._keys:
            self._flag("word-twice", event, f"it was heard before, by its key {event.data.key}")
        self._keys.append(event.data.key)

    def _flag(self, code: str, event: Recorded, message: str) -> None:
        self.findings.append(finding_at(code, event, message))
