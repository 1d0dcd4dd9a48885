"""The verdict of the campaign finds nothing in a true log, and sees each violation that is planted in it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Final, TypeVar

import pytest
from msgspec.structs import replace
from tests.chaos.campaign import workflow
from tests.chaos.campaign.people import Said
from tests.chaos.campaign.scene import delivered, rows_of, worked
from tests.chaos.campaign.verdict import Evidence, Kind, judge

from redraft.app.runs.refine import refine
from redraft.app.settings.settings import read_settings
from redraft.app.workflows.user_file import workflow_in
from redraft.events.backends import open_store
from redraft.events.messages.codec import GENESIS, encode_event
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    IterationStarted,
    LoopEnded,
    RunEnded,
    StepRequested,
)
from redraft.events.messages.envelope import Origin, Recorded
from redraft.projections.record_check import Row
from redraft.projections.record_check.chain import decode_rows

T = TypeVar("T")
Plant = Callable[[Evidence], Evidence]
Events = list[Recorded]


@pytest.fixture(scope="module")
def true(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """What real runs of the campaign's workflows left."""
    return asyncio.run(_made(tmp_path_factory.mktemp("true")))


async def _made(folder: Path) -> Evidence:
    shutil.copy(workflow.__file__, folder / "workflow.py")
    settings = read_settings(store=f"sqlite:///{folder / 'log.db'}")
    flows = [workflow_in(folder / "workflow.py", name)[0] for name in ("all_of", "two_of", "all_of")]
    results = [await refine(flow, f"brief {number}", settings=settings) for number, flow in enumerate(flows)]
    said = Said()
    said.runs = {result.run: datetime.now(UTC) for result in results}
    async with open_store(settings.store) as store:
        log = await rows_of(store)
    return Evidence(log, said, delivered(folder), datetime.now(UTC), worked(folder))


def events_of(evidence: Evidence, number: int = 0) -> Events:
    """The events of the run of this number."""
    run = list(evidence.log)[number]
    return decode_rows(run, evidence.log[run])[0]


def recorded(evidence: Evidence, *told: Sequence[Recorded]) -> Evidence:
    """The same with these runs in place of the first ones, whole: versions, hashes and positions are made anew."""
    runs = [*told, *(events_of(evidence, number) for number in range(len(told), len(evidence.log)))]
    positions = count(1)
    return replace(evidence, log={events[0].run: _rows(events, positions) for events in runs})


def _rows(events: Sequence[Recorded], positions: count[int]) -> list[Row]:
    rows, before = list[Row](), GENESIS
    for version, event in enumerate(events, 1):
        origin = Origin(event.id, event.actor, event.causation, event.correlation, event.trace, event.repeats)
        stored = encode_event(event.run, version, before, event.time, origin, event.data)
        rows.append(Row(version, stored.name, stored.state, next(positions)))
        before = stored.hash
    return rows


def first(events: Events, kind: type[T], number: int = 0) -> tuple[int, T]:
    """Where the event of this kind is, and what it says."""
    found = [(at, event.data) for at, event in enumerate(events) if isinstance(event.data, kind)]
    return found[number]


def changed(evidence: Evidence, kind: type[T], number: int = 0, **fields: object) -> Evidence:
    """An event of this kind says something else, and all hashes are right."""
    events = events_of(evidence)
    at, data = first(events, kind, number)
    events[at] = replace(events[at], data=replace(data, **fields))  # type: ignore[type-var]
    return recorded(evidence, events)


def again(evidence: Evidence, kind: type[object], after: int = 1) -> Evidence:
    """An event of this kind is there once more, with an id of its own, so many places behind the first."""
    events = events_of(evidence)
    at, _ = first(events, kind)
    return recorded(evidence, [*events[: at + after], replace(events[at], id="new.0"), *events[at + after :]])


def never_recorded(evidence: Evidence) -> Evidence:
    said = Said(runs={**evidence.said.runs, "gone": datetime.now(UTC)})
    return replace(evidence, said=said)


def word_not_recorded(evidence: Evidence) -> Evidence:
    events = events_of(evidence)
    late = [*events[:-1], replace(events[-1], time=events[-1].time + timedelta(hours=1))]
    said = Said(runs=evidence.said.runs, words=[("w", events[0].run, events[0].time)])
    return replace(recorded(evidence, late), said=said)


def without_end(evidence: Evidence) -> Evidence:
    return recorded(evidence, events_of(evidence)[:-1])


def taken_out(evidence: Evidence) -> Evidence:
    run = next(iter(evidence.log))
    return replace(evidence, log={**evidence.log, run: [*evidence.log[run][:5], *evidence.log[run][6:]]})


def bytes_changed(evidence: Evidence) -> Evidence:
    run, rows = next(iter(evidence.log.items()))
    at = next(at for at, row in enumerate(rows) if row.name == "draft.generated.v1")
    other = replace(rows[at], state=rows[at].state.replace(b"a draft", b"b draft"))
    return replace(evidence, log={**evidence.log, run: [*rows[:at], other, *rows[at + 1 :]]})


def text_changed(evidence: Evidence) -> Evidence:
    _, data = first(events_of(evidence), DraftGenerated)
    return changed(evidence, DraftGenerated, draft=replace(data.draft, text="another"))


def id_of_another_run(evidence: Evidence) -> Evidence:
    one, two = events_of(evidence), events_of(evidence, 1)
    two[3] = replace(two[3], id=one[3].id)
    return recorded(evidence, one, two)


def answered_late(evidence: Evidence) -> Evidence:
    events = events_of(evidence)
    at, _ = first(events, DraftCritiqued)
    late = timedelta(minutes=10)
    return recorded(evidence, [*events[:at], *(replace(event, time=event.time + late) for event in events[at:])])


def first_draft_published(evidence: Evidence) -> Evidence:
    _, data = first(events_of(evidence), DraftGenerated)
    return changed(evidence, DraftPublished, draft=data.draft.ref)


def another_draft_judged(evidence: Evidence) -> Evidence:
    _, data = first(events_of(evidence), DraftGenerated)
    return changed(evidence, DraftCritiqued, 4, draft=data.draft.ref)


def moved(evidence: Evidence, row: int, position: int) -> Evidence:
    run, rows = next(iter(evidence.log.items()))
    other = [*rows[:row], replace(rows[row], position=position), *rows[row + 1 :]]
    return replace(evidence, log={**evidence.log, run: other})


def never_delivered(evidence: Evidence) -> Evidence:
    return replace(evidence, delivered=replace(evidence.delivered, shelf={}))


def delivered_beside(evidence: Evidence, key: str = "") -> Evidence:
    calls = evidence.delivered.calls
    more = (key or calls[0][0], "0" * 64)
    return replace(evidence, delivered=replace(evidence.delivered, calls=(*calls, more)))


PLANTED: Final[dict[str, tuple[Plant, Kind, str]]] = {
    "a run that was submitted is not there": (never_recorded, "lost", "submitted: "),
    "what a person said is not there": (word_not_recorded, "lost", "said: "),
    "an event was taken out": (taken_out, "lost", "gap: "),
    "nothing is at a position": (lambda each: moved(each, -1, 10_000), "lost", "position: "),
    "two events are at a position": (lambda each: moved(each, 3, 3), "doubled", "position: "),
    "an answer counts twice": (lambda each: again(each, DraftGenerated), "doubled", "answer-twice: "),
    "a request is made twice": (lambda each: again(each, StepRequested), "doubled", "asked-twice: "),
    "an id is that of another run's event": (id_of_another_run, "doubled", "id-twice: "),
    "a run goes on after its end": (lambda each: again(each, RunEnded), "doubled", "after-end: "),
    "two drafts were delivered as one": (delivered_beside, "doubled", "delivered: "),
    "a run has not ended": (without_end, "stuck", "end: "),
    "an answer came long after its deadline": (answered_late, "stuck", "late: "),
    "a process does not end": (lambda each: replace(each, unended=("worker-1",)), "stuck", "worker-1 did not end"),
    "bytes were changed": (bytes_changed, "untrue", "changed: "),
    "a text was changed, and its hash was not": (text_changed, "untrue", "draft-hash: "),
    "an answer to what nobody asked": (
        lambda each: changed(each, DraftCritiqued, path="Loop[1]/Panel/nobody"),
        "untrue",
        "unasked: ",
    ),
    "another draft was judged than was asked": (another_draft_judged, "untrue", "draft: "),
    "another draft was published than left the loop": (first_draft_published, "untrue", "draft: "),
    "an iteration was left out": (
        lambda each: changed(each, IterationStarted, 1, iteration=3),
        "untrue",
        "iteration: ",
    ),
    "an attempt follows none that failed": (lambda each: changed(each, StepRequested, attempt=2), "untrue", "attempt"),
    "a loop ended otherwise than its scores say": (
        lambda each: changed(each, LoopEnded, outcome="plateaued"),
        "untrue",
        "loop: ",
    ),
    "a run ended otherwise than its loop": (lambda each: changed(each, RunEnded, outcome="failed"), "untrue", "end: "),
    "what is recorded as published was not delivered": (never_delivered, "untrue", "published: "),
    "what nobody asked for was delivered": (lambda each: delivered_beside(each, "r/save"), "untrue", "delivered: "),
}


def test_nothing_is_found_in_a_true_log(true: Evidence) -> None:
    verdict = judge(true)
    assert verdict.is_clean, verdict.faults
    assert verdict.counts["runs"] == verdict.counts["deliveries"] == 3


def test_nothing_is_found_in_a_true_log_that_was_made_anew(true: Evidence) -> None:
    assert judge(recorded(true)).is_clean


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_seen(true: Evidence, what: str) -> None:
    plant, kind, begins = PLANTED[what]
    found = judge(plant(true)).faults
    assert [told for told in found.get(kind, ()) if told.startswith(begins)], found
