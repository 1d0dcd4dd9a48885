"""What is wrong with a log, by what its rows say alone: nothing here decides, evolves or folds.

The trials and the tests of many coordinators read a whole log with this. It is deliberately no part of the product.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from redraft.events.codec import GENESIS
from redraft.events.content import DraftRef
from redraft.events.domain_events import (
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    LoopEnded,
    RunEnded,
    RunErased,
    RunStarted,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.envelope import Recorded
from redraft.events.store import EventStore

Answer = DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished | StepFailed
ANSWERS = (DraftGenerated, DraftCritiqued, DraftRefined, DraftPublished, StepFailed)
MADE = (DraftGenerated, DraftRefined, DraftEdited)


async def log_of(store: EventStore) -> dict[str, list[Recorded]]:
    """Every event of a log, by run, in the order of its versions."""
    found: defaultdict[str, list[Recorded]] = defaultdict(list)
    async for batch in store.tail(0, follow=False):
        for event in batch:
            found[event.run].append(event)
    return {run: sorted(events, key=lambda event: event.version) for run, events in found.items()}


def faults_in(log: dict[str, list[Recorded]]) -> dict[str, list[str]]:
    """The faults of each run that has one."""
    times = Counter(event.id for events in log.values() for event in events)
    faults = {}
    for run, events in log.items():
        doubled = [
            f"{event.version}: the id {event.id} is there {n} times" for event in events if (n := times[event.id]) > 1
        ]
        if found := [*doubled, *run_faults(events)]:
            faults[run] = found
    return faults


def run_faults(events: Sequence[Recorded]) -> list[str]:
    """What is wrong with one run's events, given in the order of their versions."""
    return [*_chain(events), *_ends(events), *_answers(events), *_drafts(events)]


def _chain(events: Sequence[Recorded]) -> Iterator[str]:
    previous = GENESIS
    for number, event in enumerate(events, 1):
        if event.version != number:
            yield f"{event.version}: it is the event number {number}"
        if event.previous != previous:
            yield f"{event.version}: it does not follow the event before it"
        previous = event.hash
    for earlier, later in pairwise(events):
        if earlier.position >= later.position:
            yield f"{later.version}: it is in the log before version {earlier.version}"


def _ends(events: Sequence[Recorded]) -> Iterator[str]:
    for event in events:
        if (event.version == 1) is not isinstance(event.data, RunStarted):
            yield f"{event.version}: {event.name} in this place"
    ends = [event.version for event in events if isinstance(event.data, RunEnded)]
    told = [event.version for event in events if not isinstance(event.data, RunErased)]
    if ends and ends != told[-1:]:
        yield f"{ends[0]}: run.ended is not the one last event"


def _answers(events: Sequence[Recorded]) -> Iterator[str]:
    """One request and at most one counted outcome for each attempt, in this order, for the draft that was given.

    A fork asks once more for what its parent asked for. A verdict that came late may be of an attempt that had failed.
    """
    asked: dict[tuple[str, int], StepRequested] = {}
    repeated: set[tuple[str, int]] = set()
    answered: dict[tuple[str, int], type[Answer | VerdictLate]] = {}
    for event in events:
        data = event.data
        if isinstance(data, StepRequested):
            if (key := (data.path, data.attempt)) in asked and (key in answered or key not in repeated):
                yield f"{event.version}: {_name(key)} was requested before"
            (repeated.add if event.repeats else repeated.discard)(key)
            asked[key] = data
        elif isinstance(data, (*ANSWERS, VerdictLate)):
            key = data.path, data.attempt
            earlier = answered.get(key)
            if earlier and not (isinstance(data, VerdictLate) and earlier is StepFailed):
                yield f"{event.version}: {_name(key)} has an outcome already"
            answered[key] = type(data)
            if key not in asked:
                yield f"{event.version}: {_name(key)} was not requested"
            elif (given := _given(data)) is not None and given != asked[key].draft:
                yield f"{event.version}: {_name(key)} was requested for another draft"


def _given(data: Answer | VerdictLate) -> DraftRef | None:
    match data:
        case DraftRefined(before=before):
            return before
        case DraftCritiqued(draft=draft) | DraftPublished(draft=draft) | VerdictLate(draft=draft):
            return draft
        case _:
            return None


def _drafts(events: Sequence[Recorded]) -> Iterator[str]:
    """Drafts are numbered as they come, and nothing speaks of one, or of a critique, that is not there yet."""
    there: set[DraftRef] = set()
    critiques: dict[int, DraftRef] = {}
    for event in events:
        data = event.data
        for ref in _meant(data):
            if ref not in there:
                yield f"{event.version}: {event.name} speaks of draft {ref.version}, which is not there"
        if isinstance(data, StepRequested):
            for version in data.critiques:
                if version not in critiques:
                    yield f"{event.version}: {event.name} names version {version}, which is no critique"
        if isinstance(data, DraftCritiqued):
            critiques[event.version] = data.draft
        if isinstance(data, MADE):
            if data.draft.version != len(there) + 1:
                yield f"{event.version}: draft {data.draft.version} is the draft number {len(there) + 1}"
            there.add(data.draft.ref)


def _meant(data: object) -> Iterable[DraftRef]:
    match data:
        case StepRequested(draft=draft, outputs=outputs, beside=beside):
            return (*((draft,) if draft else ()), *outputs, *beside)
        case DraftRefined(before=before) | DraftEdited(before=before):
            return (before,)
        case DraftCritiqued() | DraftPublished() | VerdictLate() | DraftApproved() | DraftRejected() | LoopEnded():
            return (data.draft,)
        case RunEnded(draft=draft) if draft:
            return (draft,)
        case _:
            return ()


def _name(key: tuple[str, int]) -> str:
    return f"{key[0]}#{key[1]}"
