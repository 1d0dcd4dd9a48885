"""What a part left, judged: the log, what people said, what was delivered. Nothing here decides, evolves or folds.

Lost is what was confirmed and is not there; doubled what counts twice; stuck what did not happen within its step's time
and a minute in which nothing was broken; untrue whatever else of the log is not as the plan has it, or not as it was.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec
from tests.chaos.campaign.people import Said
from tests.chaos.campaign.watch import BEYOND, Seen

from redraft.events.errors import Tampered
from redraft.events.messages.codec import verify_content
from redraft.events.messages.domain_events import DraftPublished, RunEnded
from redraft.events.messages.envelope import Recorded
from redraft.projections.record_check import Finding, Ids, Row, check_rows
from redraft.projections.record_check.chain import decode_rows

Kind = Literal["lost", "doubled", "stuck", "untrue"]
Log = Mapping[str, Sequence[Row]]
"""The rows of each run, in the order of versions."""

_OF_CODE: Final[dict[str, Kind]] = {
    "gap": "lost",
    **dict.fromkeys(("double", "id-twice", "asked-twice", "answer-twice", "word-twice", "after-end"), "doubled"),
}


class Delivered(msgspec.Struct, frozen=True):
    """What the publisher did: each delivery as its key and the draft's hash, and what lies on the shelf by key."""

    calls: tuple[tuple[str, str], ...] = ()
    shelf: Mapping[str, str] = {}


class Evidence(msgspec.Struct, frozen=True):
    """What a part left. `until` is when it was over; `beside` is what others found (read models, hashes of the log).

    `worked` are pieces of work that were begun. `clocks` says how far a clock was out at most, in seconds. `troubles`
    are the times in which something was broken, `unended` the processes that did not end within 30 s once told to.
    """

    log: Log
    said: Said
    delivered: Delivered
    until: datetime
    worked: Mapping[str, int] = {}
    beside: tuple[str, ...] = ()
    clocks: float = 0.0
    troubles: tuple[tuple[datetime, datetime], ...] = ()
    unended: tuple[str, ...] = ()

    def was_calm(self, begin: datetime, end: datetime) -> bool:
        """Whether nothing was broken for a minute between these times."""
        minute = BEYOND + timedelta(seconds=2 * self.clocks)
        for broken, mended in sorted(self.troubles):
            if broken >= begin + minute:
                break
            begin = max(begin, mended)
        return begin + minute < end


class Verdict(msgspec.Struct, frozen=True):
    """The faults in sentences, by kind, and what was counted."""

    faults: Mapping[Kind, tuple[str, ...]]
    counts: Mapping[str, int]

    @property
    def is_clean(self) -> bool:
        return not any(self.faults.values())


def judge(evidence: Evidence) -> Verdict:
    """Everything that is wrong."""
    read_runs = {run: decode_rows(run, rows)[0] for run, rows in evidence.log.items()}
    faults: defaultdict[Kind, list[str]] = defaultdict(list)
    for kind, told in (
        *_by_checker(evidence.log),
        *_hashes(evidence.log),
        *_places(read_runs),
        *_missing(evidence, read_runs),
        *_unheard(evidence, read_runs),
        *_late(evidence, read_runs),
        *_deliveries(evidence.delivered, read_runs),
        *(("untrue", each) for each in evidence.beside),
        *(("stuck", f"{name} did not end within 30 s") for name in evidence.unended),
    ):
        faults[kind].append(told)
    return Verdict({kind: tuple(told) for kind, told in faults.items()}, _counts(evidence, read_runs))


def _by_checker(log: Log) -> Iterable[tuple[Kind, str]]:
    with Ids() as ids:
        for run, rows in log.items():
            checked = check_rows(run, rows)
            found: list[Finding] = [*checked.findings, *ids.add(checked)]
            yield from ((_OF_CODE.get(each.code, "untrue"), f"{each.code}: {each.message}") for each in found)


def _hashes(log: Log) -> Iterable[tuple[Kind, str]]:
    for run, rows in log.items():
        for row in rows:
            try:
                verify_content(run, row.version, row.name, row.state)
            except Tampered as error:
                yield "untrue", f"changed: {error}"


def _places(runs: Mapping[str, Sequence[Recorded]]) -> Iterable[tuple[Kind, str]]:
    """Positions: each once, none left out, in the order of versions."""
    there = Counter(event.position for events in runs.values() for event in events)
    for position in range(1, max(there, default=0) + 1):
        if position not in there:
            yield "lost", f"position: nothing is at position {position} of the log"
        elif there[position] > 1:
            yield "doubled", f"position: {there[position]} events are at position {position} of the log"
    for run, events in runs.items():
        if [event.position for event in events] != sorted(event.position for event in events):
            yield "untrue", f"position: events of run {run} are not in the order of their versions"


def _missing(evidence: Evidence, runs: Mapping[str, Sequence[Recorded]]) -> Iterable[tuple[Kind, str]]:
    for run, at in evidence.said.runs.items():
        if run not in runs:
            yield "lost", f"submitted: run {run} was confirmed at {at:%H:%M:%S} and is not in the log"


def _unheard(evidence: Evidence, runs: Mapping[str, Sequence[Recorded]]) -> Iterable[tuple[Kind, str]]:
    """Advice means something as long as its run goes on: it is recorded, unless the broker was emptied meanwhile."""
    for said, run, at in evidence.said.words:
        events = runs.get(run, ())
        over = next((event.time for event in events if isinstance(event.data, RunEnded)), evidence.until)
        emptied = any(at - BEYOND < wiped < over for wiped in evidence.said.wiped)
        heard = any(event.id == f"{said}.0" for event in events)
        if not heard and not emptied and evidence.was_calm(at, over):
            yield "lost", f"said: what was said to run {run} at {at:%H:%M:%S} ({said}) is not in the log"


def _late(evidence: Evidence, runs: Mapping[str, Sequence[Recorded]]) -> Iterable[tuple[Kind, str]]:
    """Whatever was due happened within a minute in which nothing was broken; and every run has ended."""
    for run, events in runs.items():
        seen = Seen()
        for event in events:
            for path, due in seen.overdue(event.time).items():
                if evidence.was_calm(due, event.time):
                    yield "stuck", f"late: {path} of run {run} was due long before event {event.version}"
            seen.note(event)
        if not seen.ended:
            yield "stuck", f"end: run {run} has not ended, and waits for {', '.join(seen.timers) or 'nothing'}"


def _deliveries(delivered: Delivered, runs: Mapping[str, Sequence[Recorded]]) -> Iterable[tuple[Kind, str]]:
    """What is recorded as published was delivered once in effect, that draft, and nothing else was."""
    by_key: defaultdict[str, set[str]] = defaultdict(set)
    for key, sha in delivered.calls:
        by_key[key].add(sha)
    asked = {
        f"{run}/{path}"
        for run, events in runs.items()
        for event in events
        if (path := getattr(event.data, "path", "")) and getattr(event.data, "role", "") == "publisher"
    }
    for key, shas in by_key.items():
        if key not in asked:
            yield "untrue", f"delivered: {key}, and nobody asked for it"
        if len(shas) > 1:
            yield "doubled", f"delivered: {len(shas)} drafts as {key}"
    for run, events in runs.items():
        for event in events:
            if isinstance(event.data, DraftPublished) and not event.repeats:
                key = f"{run}/{event.data.path}"
                if delivered.shelf.get(key) != event.data.draft.sha256:
                    yield "untrue", f"published: event {event.version} of run {run} says what was not delivered"


def _counts(evidence: Evidence, runs: Mapping[str, Sequence[Recorded]]) -> dict[str, int]:
    deliveries, worked = evidence.delivered.calls, evidence.worked
    return {
        "runs": len(runs),
        "events": sum(map(len, runs.values())),
        "deliveries": len(deliveries),
        "delivered again": len(deliveries) - len({key for key, _ in deliveries}),
        "work": sum(worked.values()),
        "work again": sum(worked.values()) - len(worked),
        "words": evidence.said.steered,
        **{
            f"ended {outcome}": number
            for outcome, number in sorted(
                Counter(
                    event.data.outcome
                    for events in runs.values()
                    for event in events
                    if isinstance(event.data, RunEnded)
                ).items()
            )
        },
    }
