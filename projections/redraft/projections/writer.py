"""What writes the read models: rows and positions in one transaction, from the one thread that it is given to.

Several processes may write one place: each transaction reads the positions first, and passes over what is counted. A
projection that cannot take an event stops there, alone, with the reason kept beside its position; a process that is
started later tries again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

from redraft.events.domain_events import RunErased, RunQuarantined
from redraft.events.envelope import Entry, Recorded, Unreadable
from redraft.events.errors import InputError, StoreUnusable
from redraft.projections.compare import Switched, compared
from redraft.projections.faults import Faulty, Resumed, SetAside, Stopped, reason
from redraft.projections.place import Cursor, Mark, Place, Session
from redraft.projections.positions import Aside, Positions, beside, laid
from redraft.projections.projection import Change, Projection
from redraft.projections.rows import Rows

Notice: TypeAlias = Switched | Stopped | Resumed | SetAside
Aim: TypeAlias = tuple[Projection, str]
"""A projection, and the track that it is written to."""


class Begun(NamedTuple):
    """A projection goes on after this position; `beside` the rows that are read, or in them."""

    position: int
    beside: bool


KEPT: Final = 2_000
"""How many rows of a table are held between batches at most."""


class Writer:
    """Projects through a session. Tables that are missing are made; a later version is built beside an earlier one."""

    def __init__(self, session: Session, place: Place, projections: Iterable[Projection]) -> None:
        self._session = session
        self._place = place
        self._projections = {projection.name: projection for projection in projections}
        self._positions = Positions(place.tracks, place.tables)
        self._rows: dict[str, _Rows] = {}
        self._held: dict[str, Mark] = {}
        self._aside: dict[str, set[str]] = {}
        self._told: set[tuple[str, int]] = set()
        self._rebuilt: set[str] = set()
        self._stopped: dict[str, Mark] = {}
        self._news: list[Notice] = []
        self._moved: dict[str, int] = {}
        self._notices: list[Notice] = []
        self.reached = 0
        """The position that every projection has reached that has not stopped, in the rows that are read."""
        with self._transaction() as cursor:
            self._positions.create(cursor)
            marks = self._positions.marks(cursor)
            for projection in self._projections.values():
                track = self._aimed(cursor, projection, marks)
                _check_tables(cursor, projection, track, marks)
                if marks[track].position == 0:
                    _clear(cursor, projection, track, marks[track])

    def write(self, batch: Sequence[Entry], after: int, names: Iterable[str]) -> int:
        """Projects events that follow the position `after`; returns the position that these projections have reached.

        One below `after`: somebody began a projection anew, and nothing was written.
        """
        chosen = [self._projections[name] for name in names]
        try:
            return self._write(batch, after, chosen, ahead=True)
        except Exception as error:
            if not (isinstance(error, Faulty) or self._place.is_of_rows(error)):
                raise
        while True:  # each statement by itself, so that it is known whose rows it is about
            try:
                return self._write(batch, after, chosen)
            except Faulty as fault:
                self._narrow(fault.projection, batch, after)

    def begin(self, names: Iterable[str]) -> dict[str, Begun]:
        """Where these projections go on, but for those that have stopped."""
        with self._transaction() as cursor:
            marks, aims = self._marks(cursor, [self._projections[name] for name in names])
            return {each.name: Begun(marks[track].position, track != each.name) for each, track in aims}

    def begin_beside(self, names: Iterable[str]) -> None:
        """Begins these projections from the beginning of the log, beside the rows that are there."""
        chosen = list(names)
        self._rebuilt.update(chosen)
        with self._transaction() as cursor:
            marks = self._positions.marks(cursor)
            for name in chosen:
                self._positions.drop(cursor, beside(name))
                marks.pop(beside(name), None)
                self._aimed(cursor, self._projections[name], marks)

    def begin_anew(self, names: Iterable[str]) -> None:
        """Drops the rows of these projections and sets them to the beginning of the log."""
        with self._transaction() as cursor:
            for name in names:
                self._begin_anew(cursor, self._projections[name])

    def belong_to(self, first: str | None) -> None:
        """Drops all rows if they came from another log than the one whose first event has this hash."""
        with self._transaction() as cursor:
            known = self._positions.log(cursor)
            if known not in (None, first):
                for track in self._positions.marks(cursor):
                    self._positions.drop(cursor, track)
                for projection in self._projections.values():
                    self._begin_anew(cursor, projection)
            if known != first:
                self._positions.set_log(cursor, first)

    def drop(self, name: str) -> None:
        """Takes away a projection that nobody keeps any more. Raises InputError when there is none of this name."""
        with self._transaction() as cursor:
            marks = self._positions.marks(cursor)
            if not {name, beside(name)} & marks.keys():
                raise InputError(f"no projection is named {name!r}; see redraft projections list")
            self._positions.drop(cursor, name)
            self._positions.drop(cursor, beside(name))

    def notices(self) -> list[Notice]:
        """What has happened since it was last asked."""
        notices, self._notices = self._notices, []
        return notices

    def close(self) -> None:
        self._session.close()

    @contextmanager
    def _transaction(self, *, ahead: bool = False) -> Iterator[Cursor]:
        self._news, self._moved = [], {}
        try:
            with self._session.transaction(ahead=ahead) as cursor:
                yield cursor
        except BaseException:
            self._held = {}
            raise
        self._rebuilt.difference_update(each.projection for each in self._news if isinstance(each, Switched))
        self._notices += filter(self._is_new, self._news)

    def _is_new(self, notice: Notice) -> bool:
        """Whether nobody was told before: that a run is set aside is told once, not by each projection."""
        if not isinstance(notice, SetAside):
            return True
        before = len(self._told)
        self._told.add((notice.run, notice.position))
        return len(self._told) > before

    def _write(self, batch: Sequence[Entry], after: int, chosen: Iterable[Projection], *, ahead: bool = False) -> int:
        with self._transaction(ahead=ahead) as cursor:
            marks, aims = self._marks(cursor, chosen)
            if aims and lowest(marks, aims) >= after:
                if after == 0 and batch and self._positions.log(cursor) is None:
                    self._positions.set_log(cursor, batch[0].hash)
                aims = [self._project(cursor, projection, track, batch, marks) for projection, track in aims]
                self._move(cursor)
        self._held = marks
        live = [marks[name].position for name in self._projections if name in marks and name not in self._stopped]
        end = batch[-1].position if batch else after
        self.reached = min(live, default=end)
        return lowest(marks, aims) if aims else end

    def _marks(self, cursor: Cursor, chosen: Iterable[Projection]) -> tuple[dict[str, Mark], list[Aim]]:
        """The marks as they are, and where the chosen projections are written, but for those that have stopped.

        What is held of rows that somebody else has written since is dropped.
        """
        marks = self._positions.marks(cursor)
        aims: list[Aim] = []
        aside: list[Aside] | None = None
        for projection in chosen:
            track = self._aimed(cursor, projection, marks)
            mark = marks[track]
            if self._held.get(track) != mark:
                self._rows[track] = self._rows_of(projection, track, mark)
                aside = self._positions.aside(cursor) if aside is None else aside
                self._aside[track] = {each.run for each in aside if each.track == track}
            if self._stopped.get(projection.name) == mark:
                continue
            self._stopped.pop(projection.name, None)
            aims.append((projection, track))
        return marks, aims

    def _rows_of(self, projection: Projection, track: str, mark: Mark) -> _Rows:
        tables = self._place.tables
        return _Rows({each.name: Rows(laid(each, track, mark.build), KEPT, tables) for each in projection.tables})

    def _aimed(self, cursor: Cursor, projection: Projection, marks: dict[str, Mark]) -> str:
        """The track that a projection is written to, begun if it is not there."""
        name, wanted = projection.name, projection.version
        live = marks.get(name)
        if live is not None and live.version == wanted and name not in self._rebuilt:
            return name
        built = marks.get(beside(name))
        for mark in (live, built):
            if mark is not None and mark.version > wanted:
                raise StoreUnusable(
                    f"the read model {name!r} was made by a later version ({mark.version}, not {wanted}) of it; use "
                    "the Redraft or the file that made it, or delete the read models: they are made anew from the log"
                )
        if live is None or live.position == 0:
            marks[name] = self._begin_anew(cursor, projection)
            marks.pop(beside(name), None)
            return name
        if built is None or built.version < wanted:
            build = max(live.build, built.build if built else 0) + 1
            marks[beside(name)] = self._positions.begin(cursor, projection, beside(name), build)
        return beside(name)

    def _begin_anew(self, cursor: Cursor, projection: Projection) -> Mark:
        self._positions.drop(cursor, beside(projection.name))
        return self._positions.begin(cursor, projection, projection.name, 1)

    def _project(
        self, cursor: Cursor, projection: Projection, track: str, batch: Sequence[Entry], marks: dict[str, Mark]
    ) -> Aim:
        if track != projection.name:
            upto = marks[projection.name].position
            older = batch
            if batch and batch[-1].position > upto:
                older = [recorded for recorded in batch if recorded.position <= upto]
            self._apply(cursor, projection, track, older, marks)
            if marks[track].position < upto:
                return projection, track
            self._switch(cursor, projection, marks)
        self._apply(cursor, projection, projection.name, batch, marks)
        return projection, projection.name

    def _apply(
        self, cursor: Cursor, projection: Projection, track: str, batch: Sequence[Entry], marks: dict[str, Mark]
    ) -> None:
        mark = marks[track]
        news = batch
        if batch and batch[0].position <= mark.position:
            news = [recorded for recorded in batch if recorded.position > mark.position]
        if not news:
            return
        apply, rows, aside = projection.apply, self._rows[track], self._aside[track]
        cleared = _cleared(projection, news)
        changes: defaultdict[str, list[Change]] = defaultdict(list)
        try:
            for entry in news:
                if isinstance(entry, Unreadable) or entry.run in aside:
                    found = self._apart(cursor, projection, track, entry)
                elif entry.position < cleared.get(entry.run, 0):
                    continue
                else:
                    found = apply(entry)
                for change in found:
                    changes[change.table].append(change)
            for table, those in changes.items():
                rows[table].change_all(those, cursor)
            for each in rows.values():
                each.write(cursor)
        except Exception as error:
            if not self._place.is_of_rows(error):
                raise
            raise Faulty(projection, error) from error
        self._moved[track] = news[-1].position
        if mark.failed:
            self._positions.fail(cursor, track, 0, "")
            self._news.append(Resumed(projection.name, news[-1].position))
        marks[track] = Mark(mark.version, news[-1].position, mark.build)

    def _apart(self, cursor: Cursor, projection: Projection, track: str, entry: Entry) -> Iterable[Change]:
        """Returns what an entry changes that sets its run aside, or is of a run that is set aside."""
        aside, run = self._aside[track], entry.run
        if not isinstance(entry, Unreadable):
            if isinstance(entry.data, RunQuarantined):
                self._positions.settle(cursor, track, run)
            return projection.apply(entry) if isinstance(entry.data, RunQuarantined | RunErased) else ()
        if run in aside:
            return ()
        aside.add(run)
        self._positions.set_aside(cursor, track, entry)
        self._news.append(SetAside(run, entry.version, entry.position, entry.why))
        return projection.aside(entry) if projection.aside else ()

    def _move(self, cursor: Cursor) -> None:
        """Raises the positions of what was written: late, for that each could be raised is waited for."""
        for track, position in self._moved.items():
            self._positions.move(cursor, track, position)
        self._moved = {}

    def _switch(self, cursor: Cursor, projection: Projection, marks: dict[str, Mark]) -> None:
        """Compares what was built with the live rows, at the same position, and puts it in their place."""
        self._move(cursor)
        name, track = projection.name, beside(projection.name)
        live, built = marks[name], marks.pop(track)
        tables = compared(cursor, self._positions.shape(cursor, name), self._positions.shape(cursor, track))
        self._positions.switch(cursor, name)
        marks[name] = built
        self._rows[name] = self._rows_of(projection, name, built)
        self._aside[name] = self._aside.pop(track, set())
        self._news.append(Switched(name, live.version, projection.version, built.position, tables))

    def _narrow(self, projection: Projection, batch: Sequence[Entry], after: int) -> None:
        """Goes as far as one projection can alone, half by half, up to the event that it cannot take."""
        try:
            self._write(batch, after, [projection])
        except Faulty as fault:
            if len(batch) > 1:
                half = len(batch) // 2
                self._narrow(projection, batch[:half], after)
                if projection.name not in self._stopped:
                    self._narrow(projection, batch[half:], batch[half - 1].position)
            elif not (batch and self._leave_out(projection, batch[0], after, reason(fault.error))):
                self._stop(projection, batch[0].position if batch else after, reason(fault.error))

    def _leave_out(self, projection: Projection, entry: Entry, after: int, error: str) -> bool:
        """Whether the run of an entry could be set aside, so that the projection goes on with the others."""
        if projection.aside is None or isinstance(entry, Unreadable):
            return False
        try:
            self._write([Unreadable(entry.run, entry.version, entry.position, entry.name, error)], after, [projection])
        except Faulty:
            return False
        return True

    def _stop(self, projection: Projection, failed: int, error: str) -> None:
        name = projection.name
        with self._transaction() as cursor:
            marks = self._positions.marks(cursor)
            track = self._aimed(cursor, projection, marks)
            self._positions.fail(cursor, track, failed, error)
            mark = self._positions.marks(cursor)[track]
        self._stopped[name] = mark
        self._notices.append(Stopped(name, mark.position, failed, error))


class _Rows(dict[str, Rows]):
    """The rows of a projection's tables, by name."""

    def __missing__(self, table: str) -> Rows:
        raise ValueError(f"there is no table {table!r} in this projection; there are {', '.join(self)}")


def lowest(marks: Mapping[str, Mark], aims: Iterable[Aim]) -> int:
    """The position that every one of these has reached."""
    return min(marks[track].position for _, track in aims)


def check_names(projections: Sequence[Projection]) -> None:
    """Raises ValueError when two projections, or two tables or indexes of theirs, have the same name."""
    tables = [table for projection in projections for table in projection.tables]
    names = [projection.name for projection in projections]
    things = [name for table in tables for name in (table.name, *table.indexes)]
    for listed in (names, things):
        twice = sorted({name for name in listed if listed.count(name) > 1})
        if twice:
            raise ValueError(f"two projections cannot share the name {twice[0]!r}; rename one")


def _clear(cursor: Cursor, projection: Projection, track: str, mark: Mark) -> None:
    """Rows of which no position is known, as where the table of positions was lost, would be counted twice."""
    for table in projection.tables:
        cursor.execute(f"DELETE FROM {laid(table, track, mark.build).name}")  # noqa: S608 - checked names


def _check_tables(cursor: Cursor, projection: Projection, track: str, marks: Mapping[str, Mark]) -> None:
    """Asks for every column by name: a table that is not as it was made is damage, found before anything is written."""
    for table in projection.tables:
        there = laid(table, track, marks[track].build)
        cursor.execute(f"SELECT {', '.join(there.columns)} FROM {there.name} LIMIT 0")  # noqa: S608 - checked names


def _cleared(projection: Projection, batch: Sequence[Entry]) -> dict[str, int]:
    """For each run, the position of its last event in the batch at which all its rows are deleted."""
    if not projection.clears:
        return {}
    clears = projection.clears
    return {each.run: each.position for each in batch if isinstance(each, Recorded) and isinstance(each.data, clears)}
