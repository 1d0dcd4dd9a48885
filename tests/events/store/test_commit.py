"""What becomes of appends that go into one transaction: together where that can be, and each by itself where not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.appending import chained

from redraft.events.errors import Conflict, StoreError, Unstorable
from redraft.events.store.append import Encoded, NewEvent
from redraft.events.store.commit import PendingAppend, commit
from redraft.events.store.recorder import (
    DataError,
    IntegrityError,
    MemoryRecorder,
    OperationalError,
    PersistenceError,
    Recorder,
    StoredEvent,
)

Notes = Callable[..., list[NewEvent]]
Given = list[list[tuple[str, int]]]


class Faulty(MemoryRecorder):
    """A recorder that fails where it is told to, and knows what it was given: runs and versions, call by call."""

    def __init__(self) -> None:
        super().__init__()
        self.given: Given = []
        self.before: list[Exception | None] = []
        self.after: list[Exception | None] = []
        self.reading: Exception | None = None

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        self.given.append([(str(each.originator_id), each.originator_version) for each in stored_events])
        _fail(self.before)
        positions = super().insert_events(stored_events, **kwargs)
        _fail(self.after)
        return positions

    def select_events(self, *args: Any, **kwargs: Any) -> Any:
        if self.reading is not None:
            raise self.reading
        return super().select_events(*args, **kwargs)


def _fail(errors: list[Exception | None]) -> None:
    error = errors.pop(0) if errors else None
    if error is not None:
        raise error


def committed(recorder: Recorder, *appends: Encoded, failed: PersistenceError | None = None) -> list[object]:
    """What became of these appends: positions, or what was wrong."""
    entries = [PendingAppend(each) for each in appends]
    commit(recorder, "here", entries, failed)
    return [shown(each) for each in entries]


def shown(entry: PendingAppend) -> object:
    match entry.outcome:
        case tuple() as positions:
            return positions
        case Unstorable() as error:
            return str(error)
        case Conflict() as conflict:
            return (conflict.run, conflict.expected)
        case StoreError() as error:
            return str(error)
        case None:
            return None


@pytest.fixture
def recorder() -> Faulty:
    return Faulty()


def test_appends_go_into_one_transaction_and_each_gets_the_positions_of_its_events(recorder: Faulty, notes: Notes):
    first, second = chained("a", notes("a", 2), notes("a", 1, after=2))
    (other,) = chained("b", notes("b", 3))
    assert committed(recorder, first, other, second) == [(1, 2), (3, 4, 5), (6,)]
    assert recorder.given == [[("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3), ("a", 3)]]


def test_nothing_is_written_where_nothing_is_to_be(recorder: Faulty):
    assert committed(recorder) == []
    assert recorder.given == []


def test_one_that_does_not_follow_is_a_conflict_and_its_neighbours_are_recorded(recorder: Faulty, notes: Notes):
    (first,) = chained("a", notes("a", 2))
    (foreign,) = chained("b", notes("b", 1), version=4, previous="?")
    (other,) = chained("c", notes("c", 1))
    assert committed(recorder, first, foreign, other) == [(1, 2), ("b", 4), (3,)]
    assert [len(each) for each in recorder.given] == [4, 2, 1, 1]


def test_one_that_is_refused_alone_is_not_tried_again(recorder: Faulty, notes: Notes):
    (foreign,) = chained("b", notes("b", 1), version=4, previous="?")
    assert committed(recorder, foreign) == [("b", 4)]
    assert recorder.given == [[("b", 5)]]


@pytest.mark.parametrize("many", [1, 2])
def test_others_in_its_place_are_a_conflict(recorder: Faulty, notes: Notes, many: int):
    (theirs,) = chained("a", notes("a", 3, by="them"))
    ours = [chained(run, notes(run, 2, by="us"))[0] for run in ("a", "b")[:many]]
    committed(recorder, theirs)
    assert committed(recorder, *ours) == [("a", 0), (4, 5)][:many]


def test_what_begins_as_others_have_and_goes_on_otherwise_is_a_conflict(recorder: Faulty, notes: Notes):
    same = notes("a", 1)
    committed(recorder, *chained("a", [*same, *notes("a", 1, after=1, by="them")]))
    assert committed(recorder, *chained("a", [*same, *notes("a", 1, after=1, by="us")])) == [("a", 0)]


@pytest.mark.parametrize("many", [1, 2])
def test_what_is_recorded_already_is_a_success_with_its_positions(recorder: Faulty, notes: Notes, many: int):
    appends = chained("a", notes("a", 2), notes("a", 2, after=2), notes("a", 1, after=4))
    committed(recorder, *chained("b", notes("b", 1)), *appends)
    assert committed(recorder, *appends[1 : many + 1]) == [(4, 5), (6,)][:many]


def test_part_of_an_append_that_is_there_is_no_success(recorder: Faulty, notes: Notes):
    events = notes("a", 2)
    committed(recorder, *chained("a", events[:1]))
    assert committed(recorder, *chained("a", events)) == [("a", 0)]


def test_a_database_that_takes_a_row_of_nobody_says_so_of_that_append_alone(recorder: Faulty, notes: Notes):
    recorder.before = [DataError("too big"), None, DataError("too big")]
    appends = [chained(run, notes(run))[0] for run in "abc"]
    never = "run b: the database does not take its next event: too big"
    assert committed(recorder, *appends) == [(1,), never, (2,)]
    assert [len(each) for each in recorder.given] == [3, 1, 1, 1]


def test_after_a_failure_nothing_is_written_again_and_what_is_recorded_all_the_same_is_found(
    recorder: Faulty, notes: Notes
):
    appends = [chained(run, notes(run, 2))[0] for run in "ab"]
    recorder.after = [OperationalError("the answer\nwas lost")]
    assert committed(recorder, *appends) == [(1, 2), (3, 4)]
    recorder.before = [OperationalError("no\nroom")]
    (more,) = chained("a", notes("a", 1, after=2), version=2, previous=appends[0].hash)
    assert committed(recorder, more, appends[1]) == ["store here: no room", (3, 4)]
    assert len(recorder.given) == 2


def test_what_somebody_else_has_tried_is_looked_up_and_not_tried_again(recorder: Faulty, notes: Notes):
    (there,) = chained("a", notes("a", 2))
    (new,) = chained("b", notes("b", 2))
    committed(recorder, there)
    failed = OperationalError("cut off")
    assert committed(recorder, there, new, failed=failed) == [(1, 2), "store here: cut off"]
    assert len(recorder.given) == 1


@pytest.mark.parametrize("many", [1, 2])
def test_what_the_database_refused_for_somebody_else_is_a_conflict_here(recorder: Faulty, notes: Notes, many: int):
    (theirs,) = chained("a", notes("a", by="them"))
    ours = [chained(run, notes(run))[0] for run in ("a", "b")[:many]]
    committed(recorder, theirs)
    assert committed(recorder, *ours, failed=IntegrityError("once")) == [("a", 0), (2,)][:many]


def test_a_failure_is_told_and_not_that_it_could_not_be_looked_up(recorder: Faulty, notes: Notes):
    (first,) = chained("a", notes("a"))
    recorder.before, recorder.reading = [OperationalError("no room")], OperationalError("cut off")
    assert committed(recorder, first) == ["store here: no room"]


@pytest.mark.parametrize("many", [1, 2])
def test_what_is_refused_and_cannot_be_looked_up_fails_for_that(recorder: Faulty, notes: Notes, many: int):
    appends = [chained(run, notes(run))[0] for run in ("a", "b")[:many]]
    recorder.before, recorder.reading = [IntegrityError("once")] * (many + 1), OperationalError("cut off")
    assert committed(recorder, *appends)[0] == "store here: cut off"
