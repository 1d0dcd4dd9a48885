"""What writes the read models: rows and positions in one transaction, from the one thread that it is given to.

Several processes may write one file: each transaction reads the positions first, and passes over what is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from redraft.events.envelope import Recorded
from redraft.events.errors import StoreUnusable
from redraft.projections.place import Cursor, Mark, Place, Session
from redraft.projections.positions import Positions
from redraft.projections.projection import Projection
from redraft.projections.rows import Rows


class Writer:
    """Projects through a session. Tables that are missing, or of an earlier version of a projection, are made anew."""

    def __init__(self, session: Session, place: Place, projections: Iterable[Projection]) -> None:
        self._session = session
        self._tables = place.tables
        self._projections = tuple(projections)
        self._positions = Positions(place.tracks)
        check_names(self._projections)
        self._rows = {
            table.name: Rows(table, tables=self._tables)
            for projection in self._projections
            for table in projection.tables
        }
        self._held: dict[str, Mark] = {}
        with self._transaction() as cursor:
            self._positions.create(cursor)
            marks = self._positions.marks(cursor)
            for projection in self._projections:
                if self._needs_tables(projection, marks.get(projection.name)):
                    self._make_anew(cursor, projection)
                _check_tables(cursor, projection)

    def write(self, batch: Sequence[Recorded], after: int) -> int:
        """Projects events that follow the position `after`; returns the position reached.

        One below `after`: somebody began a projection anew, and nothing was written.
        """
        with self._transaction() as cursor:
            marks = self._current_marks(cursor)
            if lowest(marks, self._projections) >= after:
                if after == 0 and batch and self._positions.log(cursor) is None:
                    self._positions.set_log(cursor, batch[0].hash)
                for projection in self._projections:
                    marks[projection.name] = self._project(cursor, projection, batch, marks[projection.name])
        self._held = marks
        return lowest(marks, self._projections)

    def begin_anew(self, names: Iterable[str]) -> int:
        """Drops the rows of these projections and sets them to the beginning of the log."""
        chosen = set(names)
        with self._transaction() as cursor:
            for projection in self._projections:
                if projection.name in chosen:
                    self._make_anew(cursor, projection)
            return lowest(self._positions.marks(cursor), self._projections)

    def belong_to(self, first: str | None) -> int:
        """Begins all anew if the rows came from another log than the one whose first event has this hash."""
        with self._transaction() as cursor:
            known = self._positions.log(cursor)
            if known not in (None, first):
                for projection in self._projections:
                    self._make_anew(cursor, projection)
            if known != first:
                self._positions.set_log(cursor, first)
            return lowest(self._positions.marks(cursor), self._projections)

    def close(self) -> None:
        self._session.close()

    @contextmanager
    def _transaction(self) -> Iterator[Cursor]:
        try:
            with self._session.transaction() as cursor:
                yield cursor
        except BaseException:
            self._held = {}
            raise

    def _forget(self, projection: Projection) -> None:
        for table in projection.tables:
            self._rows[table.name].forget()

    def _current_marks(self, cursor: Cursor) -> dict[str, Mark]:
        """The marks as they are, having dropped what is held of rows that somebody else has written since."""
        marks = self._positions.marks(cursor)
        for projection in self._projections:
            mark = marks.get(projection.name)
            self._needs_tables(projection, mark)
            if self._held.get(projection.name) != mark:
                self._forget(projection)
        return marks

    def _needs_tables(self, projection: Projection, mark: Mark | None) -> bool:
        if mark is not None and mark.version > projection.version:
            raise StoreUnusable(
                f"the read model {projection.name!r} was made by a later version of Redraft ({mark.version}, "
                f"not {projection.version}); use that version, or delete the file of the read models"
            )
        return mark is None or mark.version < projection.version

    def _project(self, cursor: Cursor, projection: Projection, batch: Sequence[Recorded], mark: Mark) -> Mark:
        news = [recorded for recorded in batch if recorded.position > mark.position]
        if not news:
            return mark
        apply, rows = projection.apply, self._rows
        for recorded in news:
            for change in apply(recorded):
                rows[change.table].change(change, cursor)
        for table in projection.tables:
            rows[table.name].write(cursor)
        self._positions.move(cursor, projection.name, news[-1].position)
        return Mark(mark.version, news[-1].position)

    def _make_anew(self, cursor: Cursor, projection: Projection) -> None:
        for name in self._positions.tables(cursor, projection.name):
            cursor.execute(f"DROP TABLE {name}")
        for table in projection.tables:
            self._tables.create(cursor, table)
        self._forget(projection)
        self._positions.reset(cursor, projection)


def lowest(marks: Mapping[str, Mark], projections: Iterable[Projection]) -> int:
    """The position that every one of these projections has reached."""
    return min((marks[projection.name].position for projection in projections), default=0)


def check_names(projections: Sequence[Projection]) -> None:
    """Raises ValueError when two projections, or two tables or indexes of theirs, have the same name."""
    tables = [table for projection in projections for table in projection.tables]
    names = [projection.name for projection in projections]
    things = [name for table in tables for name in (table.name, *table.indexes)]
    for listed in (names, things):
        twice = sorted({name for name in listed if listed.count(name) > 1})
        if twice:
            raise ValueError(f"two projections cannot share the name {twice[0]!r}; rename one")


def _check_tables(cursor: Cursor, projection: Projection) -> None:
    """Asks for every column by name: a table that is not as it was made is damage, found before anything is written."""
    for table in projection.tables:
        cursor.execute(f"SELECT {', '.join(table.columns)} FROM {table.name} LIMIT 0")  # noqa: S608 - checked names
