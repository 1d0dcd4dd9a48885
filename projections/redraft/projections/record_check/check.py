"""One run's record checked as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from redraft.events.codec import Opener
from redraft.events.domain_events import RunStarted
from redraft.events.envelope import Recorded
from redraft.events.texts import ERASED
from redraft.projections.record_check.answers import answer_faults
from redraft.projections.record_check.chain import Row, chain_faults, read
from redraft.projections.record_check.drafts import draft_faults
from redraft.projections.record_check.findings import Finding
from redraft.projections.record_check.order import is_set_aside, order_faults
from redraft.projections.record_check.plans import against_plan


class Checked(msgspec.Struct, frozen=True):
    """What was found in a run. `set_aside`: somebody did that, so that its faults concern nobody any more.

    `ids` are those of its events, with version and position.
    """

    run: str
    findings: tuple[Finding, ...]
    set_aside: bool = False
    ids: tuple[tuple[str, int, int], ...] = ()


def check_rows(run: str, rows: Iterable[Row], opener: Opener | None = None) -> Checked:
    """Returns what is wrong with a run, by its rows. `opener` opens sealed texts; others are not compared."""
    events, unreadable = read(run, rows, opener)
    ids = tuple((event.id, event.version, event.position) for event in events)
    findings = [*unreadable, *(() if unreadable else check_events(events))]
    if unreadable:
        known = {each.version for each in unreadable}
        findings += [each for each in chain_faults(events) if each.version - 1 not in known]
    return Checked(run, tuple(findings), is_set_aside(events), ids)


def check_events(events: Sequence[Recorded]) -> tuple[Finding, ...]:
    """Returns what is wrong with a run, in the order of its events, each fault once."""
    findings = [*chain_faults(events), *order_faults(events), *answer_faults(events), *draft_faults(events)]
    if _is_readable(events) and not any(each.code in ("gap", "double", "beginning") for each in findings):
        deviation = against_plan([event for event in events if not is_set_aside([event])])
        if deviation and all(each.version != deviation.version for each in findings):
            findings.append(deviation)
    return tuple(sorted(findings, key=lambda each: each.version))


def _is_readable(events: Sequence[Recorded]) -> bool:
    """Whether texts, and with them hashes of drafts, can be compared."""
    begun = events[0].data if events else None
    return isinstance(begun, RunStarted) and begun.brief.text != ERASED
