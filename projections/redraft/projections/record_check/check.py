"""Checks the whole record of one run, and event ids across runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Final, Self

import msgspec

from redraft.events.messages.codec import Opener
from redraft.events.messages.domain_events import ChoicesCredited, Outcome, RunEnded, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import RULES
from redraft.events.messages.redaction import ERASED
from redraft.projections.record_check.answers import answer_faults
from redraft.projections.record_check.causes import cause_faults
from redraft.projections.record_check.chain import (
    Deviates,
    Finding,
    Row,
    chain_faults,
    decode_rows,
    is_set_aside,
    order_faults,
)
from redraft.projections.record_check.drafts import draft_faults, is_barred, is_held_back, is_refused, publishable_draft
from redraft.projections.record_check.items import item_findings, relatives_of
from redraft.projections.record_check.lessons import NO_STRIKES, Strikes, lesson_findings
from redraft.projections.record_check.loops import walk_node
from redraft.projections.record_check.places import place_faults
from redraft.projections.record_check.ratings import Rated, failed_gate, publishes
from redraft.projections.record_check.reused import Sources, source_findings, sources_of
from redraft.projections.record_check.unmet import Unmet
from redraft.projections.record_check.walk import Broken, Edited, Frame, Over, RecordEnds, Unclear, Walk

NO_SOURCES: Final[Sources] = {}
_REUSED: Final = b'"reused":'
_ITEMS: Final = b'"role":"run"'
_OF: Final = b'"of":{"run":'
_TABLE = "CREATE TABLE ids (id TEXT PRIMARY KEY, run TEXT NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID"


class Ids:
    """Event ids collected across runs, in a temporary SQLite database."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("PRAGMA synchronous = OFF")
        self._file.execute(_TABLE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def add(self, checked: Checked) -> list[Finding]:
        """Adds the ids of a run; returns a finding for each id that another run has."""
        findings: list[Finding] = []
        for key, version, position in {each[0]: each for each in reversed(checked.ids)}.values():
            with closing(self._file.execute("SELECT run, version FROM ids WHERE id = ?", (key,))) as found:
                other = found.fetchone()
            if other is None:
                self._file.execute("INSERT INTO ids VALUES (?, ?, ?)", (key, checked.run, version))
                continue
            also = f"event {other[1]} of run {other[0]}"
            message = f"event {version} of run {checked.run}: its id {key} is that of {also} too"
            findings.append(Finding("id-twice", message, checked.run, version, position))
        return findings


def check_against_plan(events: Sequence[Recorded]) -> Finding | None:
    """Returns the first event that neither the plan nor the earlier events call for; None when all fit."""
    begun = events[0].data if events else None
    if not isinstance(begun, RunStarted):
        return None
    return _find_deviation(Walk(events, begun))


def _find_deviation(walk: Walk) -> Finding | None:
    try:
        walk.state.begin()
        expect_end(walk, *_walk_to_end(walk))
    except Deviates as deviates:
        return deviates.finding
    except (RecordEnds, Unclear):
        return None
    return None


def _walk_to_end(walk: Walk) -> tuple[Outcome, Rated | None]:
    frame = walk.top
    try:
        return _walk_plan(walk, frame)
    except Over as over:
        return over.outcome, over.draft
    except Edited:
        raise Unclear from None


def _walk_plan(walk: Walk, frame: Frame) -> tuple[Outcome, Rated | None]:
    """Walks the whole plan; returns the outcome, and the draft that the run ends with."""
    try:
        while frame.index < len(frame.body):
            if publishes(frame.body[frame.index]) and is_refused(walk, frame):
                return "rejected", walk.current
            walk_node(walk, frame)
    except Broken as broken:
        return _publish_best(walk, frame, broken)
    outcome = walk.ended or "accepted"
    if walk.current and is_barred(walk, walk.current.ref):
        return "rejected", walk.current
    if outcome == "accepted" and failed_gate(walk.current):
        return "rejected", walk.current
    return outcome, walk.current


def _publish_best(walk: Walk, frame: Frame, broken: Broken) -> tuple[Outcome, Rated | None]:
    """After a failure, lets the best draft so far go to the remaining publishers, if it may be published."""
    walk.breaking = broken
    del walk.frames[1:]
    walk.open = {}
    try:
        while not is_held_back(walk, frame, broken):
            while frame.index < len(frame.body) and not publishes(frame.body[frame.index]):
                frame.index += 1
            if frame.index == len(frame.body):
                if walk.rules >= 2:
                    return broken.outcome, publishable_draft(walk)
                return "exhausted" if broken.outcome == "failed" else broken.outcome, walk.best
            walk_node(walk, frame)
    except Broken as again:
        walk.open = {}
        broken = Broken(broken.outcome if not again.publishing else again.outcome, publishing=True)
    return broken.outcome, walk.best_or_current()


def expect_end(walk: Walk, outcome: Outcome, draft: Rated | None) -> None:
    """Takes the end of the run. Raises Deviates when it is not the expected one."""
    try:
        event = walk.peek()
        if isinstance(event.data, ChoicesCredited):
            walk.take()
            event = walk.peek()
    except Over as over:
        expect_end(walk, over.outcome, over.draft)
        return
    except (Edited, Broken):
        raise Unclear from None
    data = event.data
    if not isinstance(data, RunEnded):
        raise Deviates("end", event, f"the run should end here as {outcome}")
    if data.outcome != outcome:
        raise Deviates("end", event, f"the run ends as {outcome}, not as {data.outcome}")
    if data.draft != (draft.ref if draft else None):
        version = draft.ref.version if draft else 0
        raise Deviates("kept", event, f"the run should end with draft {version}")
    score, scale = draft.shown if draft else (None, None)
    if (data.score, data.scale) != (score, scale):
        raise Deviates("score", event, f"that draft was scored {score}, not {data.score}")
    if data.iterations != walk.iterations:
        raise Deviates("iteration", event, f"{walk.iterations} iterations were made, not {data.iterations}")
    walk.take()


class Checked(msgspec.Struct, frozen=True):
    """The findings of a run. With `set_aside` a person has quarantined it, so its faults need no action.

    `ids` are those of its events, with version and position.
    """

    run: str
    findings: tuple[Finding, ...]
    set_aside: bool = False
    ids: tuple[tuple[str, int, int], ...] = ()


def check_rows(
    run: str,
    rows: Iterable[Row],
    opener: Opener | None = None,
    sources: Sources = NO_SOURCES,
    strikes: Strikes = NO_STRIKES,
) -> Checked:
    """Returns the faults of a run's rows. `opener` decrypts texts; without it encrypted texts are not compared.

    `sources` are the events of other runs from which it took verdicts, see `sources_in`; `strikes` those of its log.
    """
    events, unreadable = decode_rows(run, rows, opener)
    ids = tuple((event.id, event.version, event.position) for event in events)
    findings = [*unreadable, *(() if unreadable else check_events(events, sources, strikes))]
    if unreadable:
        known = {each.version for each in unreadable}
        findings += [each for each in chain_faults(events) if each.version - 1 not in known]
    return Checked(run, tuple(findings), is_set_aside(events), ids)


def sources_in(run: str, rows: Iterable[Row]) -> frozenset[str]:
    """Returns the other runs from which these rows of a run took verdicts, those of its items, and the one around it.

    Most rows are not even read.
    """
    events = decode_rows(run, filter(_names_others, rows))[0]
    return sources_of(events).union(relatives_of(events))


def _names_others(row: Row) -> bool:
    try:
        return _REUSED in row.state or _ITEMS in row.state or _OF in row.state
    except TypeError:  # a foreign writer's row, without bytes
        return False


def check_events(
    events: Sequence[Recorded], sources: Sources = NO_SOURCES, strikes: Strikes = NO_STRIKES
) -> tuple[Finding, ...]:
    """Returns the faults of a run, in the order of its events, each once.

    A verdict that it took from a run which is not among the `sources` is a finding `unproven`, and no fault.
    """
    findings = [*chain_faults(events), *order_faults(events), *answer_faults(events), *draft_faults(events)]
    findings += place_faults(events)
    if not _has_holes(findings):
        deviation = check_against_plan(_of_plan(events)) if _is_readable(events) else None
        if deviation and all(each.version != deviation.version for each in findings):
            findings.append(deviation)
        findings += cause_faults(events)
    findings += [*source_findings(events, sources), *lesson_findings(events, strikes), *item_findings(events, sources)]
    return tuple(sorted(findings, key=lambda each: each.version))


def unmet_drafts(events: Sequence[Recorded]) -> Mapping[int, Unmet]:
    """Returns the drafts that did not end a loop, by the version of the event with which it went on.

    Those up to the first event that the plan does not explain, and none of a run whose texts cannot be read.
    """
    begun = events[0].data if events else None
    if not isinstance(begun, RunStarted) or begun.rules > RULES or not _is_readable(events):
        return {}
    if _has_holes([*chain_faults(events), *order_faults(events)]):
        return {}
    walk = Walk(_of_plan(events), begun)
    _find_deviation(walk)
    return walk.unmet


def _has_holes(findings: Iterable[Finding]) -> bool:
    return any(each.code in ("gap", "double", "beginning") for each in findings)


def _of_plan(events: Sequence[Recorded]) -> list[Recorded]:
    return [event for event in events if not is_set_aside([event])]


def _is_readable(events: Sequence[Recorded]) -> bool:
    """Returns whether texts, and with them the hashes of drafts, can be compared."""
    begun = events[0].data if events else None
    return isinstance(begun, RunStarted) and begun.brief.text != ERASED
