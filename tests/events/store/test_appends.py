"""An append names the event that it was decided on: what was decided on an event that never was is a conflict."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from tests.events.conftest import Log

from redraft.events.errors import Conflict
from redraft.events.messages.codec import GENESIS
from redraft.events.messages.envelope import Recorded
from redraft.events.store.append import Append, Encoded
from redraft.events.store.event_store import EventStore, NewEvent
from redraft.events.store.group_commit import GROUP_EVENTS

Notes = Callable[..., list[NewEvent]]


@pytest.fixture
async def two(log: Log) -> AsyncIterator[tuple[EventStore, EventStore]]:
    """Two stores on one log, as two processes have them, where run r has one event."""
    async with log.store() as ours, log.store() as theirs:
        yield ours, theirs


async def chain(store: EventStore, begin: Recorded | None, events: Sequence[NewEvent]) -> list[Encoded]:
    """Each event an append of its own, decided on the one before it."""
    version, previous = (begin.version, begin.hash) if begin else (0, GENESIS)
    made = []
    for number, event in enumerate(events):
        run = begin.run if begin else "r"
        made.append(await store.encode(Append(run, version + number, (event,), previous)))
        previous = made[-1].hash
    return made


def conflicts(results: Sequence[tuple[Recorded, ...] | Conflict]) -> list[tuple[str, int]]:
    return [(each.run, each.expected) for each in results if isinstance(each, Conflict)]


async def whole(store: EventStore, run: str = "r") -> list[str]:
    """The ids of a run's events, once it is verified and has no gap."""
    events = await store.read(run)
    assert [event.version for event in events] == list(range(1, len(events) + 1))
    assert await store.verify(run) == len(events)
    return [event.id for event in events]


async def test_what_is_decided_on_an_append_that_conflicted_is_a_conflict(
    two: tuple[EventStore, EventStore], notes: Notes
) -> None:
    """X0 conflicts at version 1; X1 was decided on X0 and expects version 2, which by then is theirs."""
    ours, theirs = two
    (first,) = await ours.append("r", 0, notes("r"))
    x0, x1 = await chain(ours, first, notes("r", 2, after=1, by="ours"))
    await theirs.append("r", 1, notes("r", 1, after=1, by="theirs"), first.hash)
    assert conflicts(await ours.hand_in([x0])) == [("r", 1)]
    assert conflicts(await ours.hand_in([x1])) == [("r", 2)]
    assert await whole(theirs) == ["r/test/1", "r/theirs/2"]


@pytest.mark.parametrize("at_once", [True, False], ids=["one hand-in", "three"])
@pytest.mark.parametrize("others", [0, GROUP_EVENTS])
async def test_what_is_decided_on_a_conflict_of_an_earlier_group_leaves_no_gap(
    two: tuple[EventStore, EventStore], notes: Notes, others: int, at_once: bool
) -> None:
    """X0 <- X1 <- X2 are all on their way when X0 conflicts; with 512 other events each is in a group of its own."""
    ours, theirs = two
    (first,) = await ours.append("r", 0, notes("r"))
    x0, *later = await chain(ours, first, notes("r", 3, after=1, by="ours"))
    crowd = await ours.encode(Append("crowd", 0, tuple(notes("crowd", others)))) if others else None
    await theirs.append("r", 1, notes("r", 1, after=1, by="theirs"), first.hash)
    begun = [x0, crowd] if crowd else [x0]
    groups = [[*begun, *later]] if at_once else [begun, *([each] for each in later)]
    results = [result for told in [ours.hand_in(group) for group in groups] for result in await told]
    assert conflicts(results) == [("r", n) for n in (1, 2, 3)]
    assert await whole(theirs) == ["r/test/1", "r/theirs/2"]
    assert len(await whole(theirs, "crowd")) == others if others else not await theirs.read("crowd")


@pytest.mark.parametrize("behind", range(3))
async def test_a_run_that_others_began_takes_nothing_of_ours(
    two: tuple[EventStore, EventStore], notes: Notes, behind: int
) -> None:
    """Both begin a run; whatever ours was to go on with is void, wherever theirs stands by then."""
    ours, theirs = two
    mine = await chain(ours, None, notes("r", 4, by="ours"))
    await theirs.append("r", 0, notes("r", 1 + behind, by="theirs"))
    assert [conflicts(await ours.hand_in([each])) for each in mine] == [[("r", n)] for n in range(4)]
    assert await whole(theirs) == [f"r/theirs/{n + 1}" for n in range(1 + behind)]


async def test_the_same_appends_again_are_recorded_already(two: tuple[EventStore, EventStore], notes: Notes) -> None:
    ours, theirs = two
    (first,) = await ours.append("r", 0, notes("r"))
    made = await chain(ours, first, notes("r", 3, after=1, by="ours"))
    told = await ours.hand_in(made)
    assert await theirs.hand_in(made) == told
    assert [await theirs.hand_in([each]) for each in reversed(made)] == [[each] for each in reversed(told)]
    assert len(await whole(theirs)) == 4


async def test_an_event_is_in_the_log_once_whatever_its_version(
    two: tuple[EventStore, EventStore], notes: Notes
) -> None:
    ours, theirs = two
    (first,) = await ours.append("r", 0, notes("r"))
    (second,) = await theirs.append("r", 1, notes("r", 1, after=1), first.hash)
    again = await ours.encode(Append("r", 2, tuple(notes("r", 1, after=1)), second.hash))
    elsewhere = await ours.encode(Append("other", 0, tuple(notes("r", 1, after=1))))
    assert conflicts(await ours.hand_in([again, elsewhere])) == [("r", 2), ("other", 0)]
    assert await whole(theirs) == ["r/test/1", "r/test/2"]
