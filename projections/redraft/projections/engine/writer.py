"""Writes read models: rows and checkpoints in one transaction, on one thread.

Several processes may write to the same storage: each transaction reads the checkpoints first, and skips events that are
counted already. A projection that fails on an event stops there, alone; its error is stored with its checkpoint, and
the next process to start tries again. The functions of projections are called, and rows of shadow tables are computed,
before the transaction that writes what they make: several processes can build different projections at the same time.
Only where other processes have moved a projection three times meanwhile are its functions called within.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias, cast

from redraft.events.errors import InputError
from redraft.events.messages.envelope import Entry, Recorded, Unreadable
from redraft.projections.engine.found import Ahead, Moved
from redraft.projections.engine.positions import AsideRun, Positions, shadow_name, stored_table
from redraft.projections.engine.projection import Change, Fold, Projection, changes_of
from redraft.projections.engine.row_cache import RowCache, RowCaches
from redraft.projections.engine.states import (
    ProjectionFailed,
    Resumed,
    SetAside,
    Stopped,
    Switched,
    compare_tables,
    describe_error,
)
from redraft.projections.engine.storage import Checkpoints, Cursor, ProjectionCheckpoint, Session, Storage

Notice: TypeAlias = Switched | Stopped | Resumed | SetAside


class Target(NamedTuple):
    """A projection, and the name of the checkpoint that it is written to."""

    projection: Projection
    checkpoint_name: str


class Begun(NamedTuple):
    """The position after which a projection continues, and whether it writes its shadow tables or its live ones."""

    position: int
    in_shadow: bool


_POSITION: Final = attrgetter("position")

_TRIES: Final = 3
"""How often changes are found before a transaction while other processes move the position; then within it."""


class _Transaction(NamedTuple):
    """A transaction: the checkpoints as it leaves them, positions yet to be stored, notices, and changes to write."""

    cursor: Cursor
    checkpoints: Checkpoints
    moved: dict[str, int]
    notices: list[Notice]
    found: Ahead


class Writer:
    """Projects events through a session. Creates missing tables; builds a later version in shadow tables."""

    def __init__(self, session: Session, storage: Storage, projections: Iterable[Projection]) -> None:
        self._session = session
        self._storage = storage
        self._projections = {projection.name: projection for projection in projections}
        self._positions = Positions(storage.tables)
        self._rows: dict[str, RowCaches] = {}
        self._seen: Checkpoints = {}
        self._latest: Checkpoints = {}
        self._aside: dict[str, frozenset[str]] = {}
        self._aside_stored: dict[str, frozenset[str]] = {}
        self._live: dict[str, int] = {}
        self._reported: set[tuple[str, int]] = set()
        self._rebuilt: set[str] = set()
        self._stopped: Checkpoints = {}
        self._notices: list[Notice] = []
        self.reached = 0
        """The position that every projection has reached in its live rows, without those that have stopped."""
        with self._transaction(creates=True) as transaction:
            for projection in self._projections.values():
                name = self._open_target(transaction, projection).checkpoint_name
                self._positions.check_tables(transaction.cursor, projection, name, transaction.checkpoints[name])

    def write(self, batch: Sequence[Entry], after: int, names: Iterable[str]) -> int:
        """Projects events that follow the position `after`; returns the position that these projections have reached.

        A result below `after` means that a projection was reset meanwhile, and nothing was written.
        """
        chosen = [self._projections[name] for name in names]
        try:
            return self._write(batch, after, chosen, ahead=True)
        except Exception as error:
            if not (isinstance(error, ProjectionFailed) or self._storage.is_row_error(error)):
                raise
        while True:  # each statement by itself, so that it is known whose rows it is about
            try:
                return self._write(batch, after, chosen)
            except ProjectionFailed as fault:
                self._isolate_failure(fault.projection, batch, after)

    def begin(self, names: Iterable[str]) -> dict[str, Begun]:
        """Returns where these projections continue, without those that have stopped."""
        with self._transaction() as transaction:
            targets = self._choose_targets(transaction, [self._projections[name] for name in names])
            return {
                each.name: Begun(transaction.checkpoints[name].position, name != each.name) for each, name in targets
            }

    def begin_shadow(self, names: Iterable[str]) -> None:
        """Starts these projections from the beginning of the log, in shadow tables."""
        chosen = list(names)
        self._rebuilt.update(chosen)
        with self._transaction() as transaction:
            for name in chosen:
                self._positions.drop(transaction.cursor, shadow_name(name))
                transaction.checkpoints.pop(shadow_name(name), None)
                self._open_target(transaction, self._projections[name])

    def reset(self, names: Iterable[str]) -> None:
        """Drops the rows of these projections and sets them to the beginning of the log."""
        with self._transaction() as transaction:
            for name in names:
                self._positions.reset(transaction.cursor, self._projections[name])

    def belong_to(self, first: str | None) -> None:
        """Drops all rows if they were made from a log whose first event has another hash."""
        with self._transaction() as transaction:
            known = self._positions.log(transaction.cursor)
            if known not in (None, first):
                for checkpoint_name in transaction.checkpoints:
                    self._positions.drop(transaction.cursor, checkpoint_name)
                for projection in self._projections.values():
                    self._positions.reset(transaction.cursor, projection)
            if known != first:
                self._positions.set_log(transaction.cursor, first)

    def drop(self, name: str) -> None:
        """Drops a projection that no program keeps any more. Raises InputError when there is none of this name."""
        with self._transaction() as transaction:
            if not {name, shadow_name(name)} & transaction.checkpoints.keys():
                raise InputError(f"no projection is named {name!r}; see redraft projections list")
            self._positions.drop(transaction.cursor, name)
            self._positions.drop(transaction.cursor, shadow_name(name))

    def notices(self) -> list[Notice]:
        """Returns what has happened since the last call."""
        notices, self._notices = self._notices, []
        return notices

    def close(self) -> None:
        self._session.close()

    @contextmanager
    def _transaction(
        self, found: Ahead | None = None, *, ahead: bool = False, creates: bool = False
    ) -> Iterator[_Transaction]:
        """Runs a transaction, which may run `ahead` as in `Session`; with `creates` it creates missing tables first."""
        notices: list[Notice] = []
        try:
            with self._session.transaction(ahead=ahead) as cursor:
                if creates:
                    self._positions.create(cursor)
                checkpoints = self._positions.checkpoints(cursor)
                self._latest = checkpoints.copy()
                yield _Transaction(cursor, checkpoints, {}, notices, found or Ahead())
        except BaseException:
            self._seen, self._aside = {}, self._aside_stored.copy()
            raise
        self._latest, self._aside_stored = checkpoints, self._aside.copy()
        self._rebuilt.difference_update(each.projection for each in notices if isinstance(each, Switched))
        self._notices += filter(self._is_new, notices)

    def _is_new(self, notice: Notice) -> bool:
        """Returns whether a notice is new: several projections set a run aside, but it is reported once."""
        if not isinstance(notice, SetAside):
            return True
        before = len(self._reported)
        self._reported.add((notice.run, notice.position))
        return len(self._reported) > before

    def _write(self, batch: Sequence[Entry], after: int, chosen: Sequence[Projection], *, ahead: bool = False) -> int:
        for _ in range(_TRIES):
            with suppress(Moved):
                return self._write_once(batch, after, chosen, self._find_ahead(batch, chosen, ahead=ahead), ahead=ahead)
        return self._write_once(batch, after, chosen, Ahead(within=True), ahead=ahead)

    def _write_once(
        self, batch: Sequence[Entry], after: int, chosen: Iterable[Projection], found: Ahead, *, ahead: bool
    ) -> int:
        """Writes a batch in one transaction; returns the position reached. Raises ProjectionFailed, Moved."""
        end = batch[-1].position if batch else after
        with self._transaction(found, ahead=ahead) as transaction:
            targets = self._choose_targets(transaction, chosen)
            if targets and _lowest_position(transaction, (each.checkpoint_name for each in targets), end) >= after:
                if after == 0 and batch and self._positions.log(transaction.cursor) is None:
                    self._positions.set_log(transaction.cursor, batch[0].hash)
                targets = [self._project(transaction, each, batch) for each in targets]
                self._move(transaction)
        self._seen.update((each.checkpoint_name, transaction.checkpoints[each.checkpoint_name]) for each in targets)
        for unwritten in transaction.found.computed:
            self._seen.pop(unwritten, None)
        running = self._projections.keys() & transaction.checkpoints.keys() - self._stopped.keys()
        self.reached = _lowest_position(transaction, running, end)
        return _lowest_position(transaction, (each.checkpoint_name for each in targets), end)

    def _choose_targets(self, transaction: _Transaction, chosen: Iterable[Projection]) -> list[Target]:
        """Returns where those are written that have not stopped; drops cached rows that another process has written."""
        targets: list[Target] = []
        aside: list[AsideRun] | None = None
        for projection in chosen:
            target = self._open_target(transaction, projection)
            checkpoint = transaction.checkpoints[target.checkpoint_name]
            if self._seen.get(target.checkpoint_name) != checkpoint:
                self._rows[target.checkpoint_name] = self._rows_of(target, checkpoint)
                transaction.found.computed.discard(target.checkpoint_name)
                aside = self._positions.aside(transaction.cursor) if aside is None else aside
                here = frozenset(each.run for each in aside if each.checkpoint_name == target.checkpoint_name)
                self._aside[target.checkpoint_name] = self._aside_stored[target.checkpoint_name] = here
            if self._stopped.get(projection.name) != checkpoint:
                self._stopped.pop(projection.name, None)
                targets.append(target)
        return targets

    def _find_ahead(self, batch: Sequence[Entry], chosen: Iterable[Projection], *, ahead: bool) -> Ahead:
        """Finds the changes of a batch, from where the projections were when last looked at."""
        found = Ahead()
        for projection in chosen:
            live, shadow = projection.name, shadow_name(projection.name)
            name = shadow if shadow in self._latest else live
            if live not in self._latest or self._stopped.get(live) == self._latest[name]:
                continue
            if ahead and self._compute_ahead(batch, projection):
                found.computed.add(shadow)
                continue
            aside: Set[str] = self._aside.get(name, frozenset())
            upto = bisect_right(batch, self._latest[live].position, key=_POSITION)
            if name == shadow:
                begin = bisect_right(batch, self._latest[shadow].position, key=_POSITION)
                aside = found.find(projection, aside, batch[begin:upto])
            found.find(projection, aside, batch[upto:])
        return found

    def _compute_ahead(self, batch: Sequence[Entry], projection: Projection) -> bool:
        """Returns whether the rows of a batch for shadow tables could be computed.

        The transaction writes these rows only if the checkpoint is then what it was when this process last wrote it.
        """
        name = shadow_name(projection.name)
        if not batch or {*map(type, batch)} != {Recorded} or name not in self._seen:
            return False
        if self._aside[name] or self._live.get(name, 0) < batch[-1].position:
            return False
        new = batch[bisect_right(batch, self._seen[name].position, key=_POSITION) :]
        try:
            with self._session.reading() as cursor:
                self._change_rows(name, changes_of(projection, cast("Sequence[Recorded]", new)), cursor)
        except Exception:  # noqa: BLE001 - whatever it is: it is found again, and told
            self._seen.pop(name)
            return False
        return True

    def _rows_of(self, target: Target, checkpoint: ProjectionCheckpoint) -> RowCaches:
        projection, name = target
        tables = {each.name: stored_table(each, name, checkpoint.build) for each in projection.tables}
        return RowCaches({name: RowCache(table, self._storage.tables) for name, table in tables.items()})

    def _open_target(self, transaction: _Transaction, projection: Projection) -> Target:
        rebuilt = projection.name in self._rebuilt
        name = self._positions.open(transaction.cursor, projection, transaction.checkpoints, rebuilt=rebuilt)
        self._rebuilt.discard(name)  # those at the beginning of the log are rebuilt where they are
        return Target(projection, name)

    def _project(self, transaction: _Transaction, target: Target, batch: Sequence[Entry]) -> Target:
        """Projects a batch; returns the next target: the live tables, once their shadow has caught up."""
        projection, name = target
        live = Target(projection, projection.name)
        if target != live:
            upto = self._live[name] = transaction.checkpoints[projection.name].position
            self._apply(transaction, target, batch[: bisect_right(batch, upto, key=_POSITION)])
            if transaction.checkpoints[name].position < upto:
                return target
            self._switch(transaction, projection)
        self._apply(transaction, live, batch)
        return live

    def _apply(self, transaction: _Transaction, target: Target, batch: Sequence[Entry]) -> None:
        """Writes the rows of the events that a checkpoint does not count yet. Raises ProjectionFailed."""
        projection, checkpoint_name = target
        checkpoint = transaction.checkpoints[checkpoint_name]
        new = batch[bisect_right(batch, checkpoint.position, key=_POSITION) :]
        if not new:
            return
        try:
            self._write_rows(transaction, target, new)
        except Exception as error:
            if isinstance(error, Moved) or not self._storage.is_row_error(error):
                raise
            raise ProjectionFailed(projection, error) from error
        position = new[-1].position
        if checkpoint.failed:
            self._positions.fail(transaction.cursor, checkpoint_name, 0, "")
            transaction.notices.append(Resumed(projection.name, position))
        transaction.moved[checkpoint_name] = position
        transaction.checkpoints[checkpoint_name] = ProjectionCheckpoint(checkpoint.version, position, checkpoint.build)

    def _write_rows(self, transaction: _Transaction, target: Target, entries: Sequence[Entry]) -> None:
        name = target.checkpoint_name
        if name in transaction.found.computed:
            transaction.found.computed.remove(name)
        else:
            self._change_rows(name, self._find_changes(transaction, target, entries), transaction.cursor)
        for each in self._rows[name].values():
            each.write(transaction.cursor)

    def _change_rows(self, checkpoint_name: str, found: Iterable[Change | Fold], cursor: Cursor) -> None:
        """Applies changes to the cached rows, which `write` then writes."""
        rows, changes = self._rows[checkpoint_name], defaultdict[str, list[Change]](list)
        for change in found:
            more = rows[change.table].fold(change, cursor) if type(change) is Fold else (change,)
            for each in more:
                changes[each.table].append(each)
        for table, those in changes.items():
            rows[table].change_all(those, cursor)

    def _find_changes(
        self, transaction: _Transaction, target: Target, entries: Sequence[Entry]
    ) -> Iterable[Change | Fold]:
        """Returns the changes of all entries, and sets their runs aside. Raises OwnError, Moved."""
        projection, checkpoint_name = target
        changes, more = transaction.found.take(projection, self._aside[checkpoint_name], entries)
        self._aside[checkpoint_name] |= {entry.run for entry in more}
        for entry in more:
            self._positions.set_aside(transaction.cursor, checkpoint_name, entry)
            transaction.notices.append(SetAside(entry.run, entry.version, entry.position, entry.why))
        return changes

    def _move(self, transaction: _Transaction) -> None:
        """Stores the new positions. This happens last, because each update may wait for a row lock."""
        for checkpoint_name, position in transaction.moved.items():
            self._positions.move(transaction.cursor, checkpoint_name, position)
        transaction.moved.clear()

    def _switch(self, transaction: _Transaction, projection: Projection) -> None:
        """Compares the shadow rows with the live rows at the same position, and replaces the live rows."""
        self._move(transaction)
        cursor, name, checkpoint_name = transaction.cursor, projection.name, shadow_name(projection.name)
        live, built = transaction.checkpoints[name], transaction.checkpoints.pop(checkpoint_name)
        tables = compare_tables(cursor, self._positions.shape(cursor, name), projection, self._storage.tables.same)
        self._positions.switch(cursor, name)
        transaction.checkpoints[name] = built
        self._rows[name] = self._rows_of(Target(projection, name), built)
        self._seen.pop(checkpoint_name, None)
        self._aside[name] = self._aside.pop(checkpoint_name, frozenset())
        transaction.notices.append(Switched(name, live.version, projection.version, built.position, tables))

    def _isolate_failure(self, projection: Projection, batch: Sequence[Entry], after: int) -> None:
        """Writes one projection alone, halving the batch until it reaches the event that it cannot process."""
        try:
            self._write(batch, after, [projection])
        except ProjectionFailed as fault:
            if len(batch) > 1:
                half = len(batch) // 2
                self._isolate_failure(projection, batch[:half], after)
                if projection.name not in self._stopped:
                    self._isolate_failure(projection, batch[half:], batch[half - 1].position)
            elif not (batch and self._leave_out(projection, batch[0], after, describe_error(fault.error))):
                self._stop(projection, batch[0].position if batch else after, describe_error(fault.error))

    def _leave_out(self, projection: Projection, entry: Entry, after: int, error: str) -> bool:
        """Returns whether the run of an entry could be set aside, so that the projection goes on with the others."""
        if projection.aside is None or isinstance(entry, Unreadable):
            return False
        try:
            self._write([Unreadable(entry.run, entry.version, entry.position, entry.name, error)], after, [projection])
        except ProjectionFailed:
            return False
        return True

    def _stop(self, projection: Projection, failed: int, error: str) -> None:
        with self._transaction() as transaction:
            checkpoint_name = self._open_target(transaction, projection).checkpoint_name
            self._positions.fail(transaction.cursor, checkpoint_name, failed, error)
            checkpoint = self._positions.checkpoints(transaction.cursor)[checkpoint_name]
        self._stopped[projection.name] = checkpoint
        self._notices.append(Stopped(projection.name, checkpoint.position, failed, error))


def _lowest_position(transaction: _Transaction, checkpoint_names: Iterable[str], end: int) -> int:
    """Returns the position that every one of these checkpoints has reached; `end` without any."""
    return min((transaction.checkpoints[name].position for name in checkpoint_names), default=end)
