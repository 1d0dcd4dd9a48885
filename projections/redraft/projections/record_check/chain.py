"""A run's rows: numbered without a gap, each built on the one before, each readable, each with an id of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from redraft.events.codec import GENESIS, Opener, decode_event
from redraft.events.envelope import Recorded
from redraft.events.errors import CodecError, Sealed, StoreError, UnknownName, UnknownRules
from redraft.projections.record_check.findings import Finding, found


class Row(msgspec.Struct, frozen=True):
    """An event as it is kept: version in its run, stored name and bytes, place in the log (0: not known)."""

    version: int
    name: str
    state: bytes
    position: int = 0


def read(run: str, rows: Iterable[Row], opener: Opener | None = None) -> tuple[list[Recorded], list[Finding]]:
    """The events that can be read, and a finding for each that cannot."""
    events: list[Recorded] = []
    findings: list[Finding] = []
    for row in rows:
        try:
            events.append(_decoded(run, row, opener))
        except (UnknownName, UnknownRules) as error:
            findings.append(_finding("later-release", run, row, str(error)))
        except (CodecError, StoreError, TypeError, AttributeError) as error:
            findings.append(_finding("unreadable", run, row, f"it cannot be read: {error}"))
    return events, findings


def chain_faults(events: Sequence[Recorded]) -> list[Finding]:
    """Returns what is wrong with versions, ids, and what each event builds on, in the order of the run."""
    findings: list[Finding] = []
    ids: dict[str, int] = {}
    version, before = 0, GENESIS
    for event in events:
        if event.version <= version:
            findings.append(found("double", event, f"there is an event {event.version} before it"))
        elif event.version > version + 1:
            missing = f"{version + 1}" if event.version == version + 2 else f"{version + 1} to {event.version - 1}"
            findings.append(found("gap", event, f"event {missing} is missing before it"))
        elif event.previous != before:
            findings.append(found("previous", event, "it does not build on the event before it"))
        if event.id in ids:
            findings.append(found("id-twice", event, f"its id {event.id} is that of event {ids[event.id]} too"))
        ids.setdefault(event.id, event.version)
        version, before = max(version, event.version), event.hash
    return findings


def _decoded(run: str, row: Row, opener: Opener | None) -> Recorded:
    try:
        return decode_event(run, row.version, row.name, row.state, row.position, opener)
    except Sealed:  # the key is not at hand: its structure can be read
        return decode_event(run, row.version, row.name, row.state, row.position)


def _finding(code: str, run: str, row: Row, told: str) -> Finding:
    return Finding(code, f"event {row.version} of run {run} ({row.name}): {told}", run, row.version, row.position)
