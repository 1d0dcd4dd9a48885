"""The event store: an asynchronous front of a recorder. It alone keeps what happened; rows are only ever added.

Calls never block the event loop: one thread writes, one reads. See `committer` for how appends are grouped, `writer`
for conflicts and lost answers, `tail` for how the log is followed, `recorders` for where the events are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, Self, TypeAlias, TypeVar

from redraft.events.appends import Append, Encoded, Landed, NewEvent, encode
from redraft.events.codec import GENESIS, decode_event, verify_hash
from redraft.events.committer import Committer, Inline, Result
from redraft.events.copying import Copying
from redraft.events.domain_events import EVENT_NAMES, RunErased, RunQuarantined, RunStarted
from redraft.events.envelope import Entry, Recorded
from redraft.events.errors import CodecError, Conflict, NoSuchRun, StoreError, Tampered
from redraft.events.keyring import Encryption, Keyring
from redraft.events.recorders import (
    ApplicationRecorder,
    Opened,
    PersistenceError,
    SQLiteRecorder,
    StoredEvent,
    explain,
    open_recorder,
)
from redraft.events.run_keys import MemoryKeys
from redraft.events.tail import Tail
from redraft.events.unreadable import place_of, unreadable
from redraft.events.verification import LogCheck, Report, Rows

__all__ = ["Append", "EventStore", "NewEvent", "open_store"]

Threads: TypeAlias = Callable[[str], Executor]
"""Makes what does one call after the other, by a name; a thread, unless somebody hands in something else."""

READ_BYTES = 8 * 1024 * 1024
"""Bytes of events that are read from the log at once, unless a single one has more."""

_VERIFIED_AT_ONCE = 500
_ERASED = EVENT_NAMES[RunErased]
_P = ParamSpec("_P")
_T = TypeVar("_T")


def open_store(url: str, *, poll: float = 0.25, encryption: Encryption | None = None) -> EventStore:
    """The store that a URL names: `sqlite:///path` (a fourth slash: absolute), `postgresql://…`, or `memory:`.

    A missing file is made, with its folder; a database must be there. `poll` is how often, in seconds, the log is
    looked at for what other processes wrote. `encryption` seals the texts of new runs, and opens those that are sealed.
    Raises InputError for any other URL, StoreUnusable when the file or
    database is not ours, StoreError when it cannot be opened. Waits up to 10 seconds for others that hold it.
    """
    return EventStore(open_recorder(url), poll=poll, encryption=encryption)


class EventStore:
    """Events by run, each run a chain of hashes, and all of them in one log.

    Every method raises StoreError when the store is closed or cannot be read or written. A StoreError of an append may
    hide a success: the same append (the same ids and times) may be handed in again, and is recorded once. Reading
    raises Sealed for a run that is encrypted with a key that is not given; of a run that was erased, `texts.ERASED`
    stands for every text.
    """

    def __init__(
        self,
        opened: Opened,
        *,
        poll: float = 0.25,
        inline: bool = False,
        encryption: Encryption | None = None,
        threads: Threads | None = None,
    ) -> None:
        """`inline` writes on the event loop's own thread: quicker where a commit is, but it stalls where it is not.

        `threads` makes what reads and what writes where these may wait.
        """
        made = threads or thread
        self._recorder = opened.recorder
        self._where = opened.where
        self._release = opened.release
        self._check = opened.check
        self._keyring = Keyring(opened.keys or MemoryKeys(), encryption)
        self._reads: Executor = made("redraft-read") if opened.waits else Inline()
        self._writes: Executor = made("redraft-write") if opened.waits and not inline else Inline()
        self._tail = Tail(self._read_log, self.head, poll, opened.listen)
        self._committer = Committer(
            self._recorder,
            self._where,
            self._writes,
            self._tail.landed if encryption is None else self._landed,
            None if inline else opened.direct,
        )
        self._direct = opened.direct
        self._looking: asyncio.Future[bool] | None = None
        self._closed = False

    @property
    def where(self) -> str:
        """What the store is called in messages: a path, or a database's URL without its password."""
        return self._where

    def longest_wait(self) -> float:
        """Seconds for which the oldest append that was handed in has been without an answer; 0 when none is."""
        return self._committer.underway.longest()

    async def append(
        self, run: str, expected_version: int, events: Sequence[NewEvent], previous: str = GENESIS
    ) -> tuple[Recorded, ...]:
        """Records events after the event of a run that they were decided on, all or none, and returns them.

        That event is named by its version and its hash, `previous`; a new run begins after version 0 and `GENESIS`.
        They are on disk when it returns. Raises Conflict when the run does not end with that event, or one of the ids
        is in the log already; CodecError when an event cannot be encoded. Cancelling stops the waiting; the events may
        be recorded all the same.
        """
        (result,) = await self.append_all([Append(run, expected_version, tuple(events), previous)])
        if isinstance(result, Conflict):
            raise result
        return result

    async def append_all(self, appends: Sequence[Append]) -> Sequence[tuple[Recorded, ...] | Conflict]:
        """Several appends at once, each all or none, with a result for each. A conflict of one is its result, no error.

        Raises CodecError, with nothing recorded, when an event cannot be encoded; the first StoreError that an append
        meets, when all have been tried.
        """
        encoded = [await self.encode(append) for append in appends]
        return await self._collected(self._submit(encoded, at_once=False))

    async def encode(self, append: Append, *, looked: bool = False) -> Encoded:
        """The append with its bytes and hashes fixed, so that more can be decided on it before it is recorded.

        A run that begins in a store that encrypts gets its key first; `looked` says that `require_sealing` was just
        called, so that many that begin together are looked up once. Raises CodecError for an event that cannot be
        written, StoreError, Sealed, and Tampered for a run whose key was changed, unless it is to be set aside.
        """
        self._check_open()
        if append.expected_version < 0 or not append.events or not append.run:
            raise ValueError("an append needs a run, an expected version of at least 0, and at least one event")
        if not self._keyring.seals:
            if append.expected_version == 0 and not looked:
                await self.require_sealing()
            if not self._keyring.seals:
                return encode(append)
        known, seal = self._keyring.held(append.run)
        try:
            if not known:
                seal = await self._in_reader(self._keyring.sealer, append.run, begins=append.expected_version == 0)
        except Tampered:  # that the run is set aside can still be recorded, in the clear
            if not all(isinstance(event.data, RunQuarantined) for event in append.events):
                raise
        return encode(append, seal)

    async def require_sealing(self) -> None:
        """Raises Sealed when runs that begin in this store are sealed, and no key is given here; StoreError.

        Runs that begin in one turn of the event loop are looked up for together, so that they are written together.
        """
        if not self._keyring.keys.waits:
            self._keyring.require_sealing()
            return
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._in_reader(self._keyring.require_sealing))
            self._looking.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(self._looking)

    def hand_in(self, appends: Sequence[Encoded]) -> Coroutine[None, None, Sequence[tuple[Recorded, ...] | Conflict]]:
        """Records appends as `append_all` does, but writing begins when it is called and not when it is awaited.

        So a caller can go on deciding meanwhile. What builds on an append that conflicts conflicts too.
        """
        return self._collected(self._submit(appends, at_once=True))

    def _submit(self, appends: Sequence[Encoded], *, at_once: bool) -> asyncio.Future[list[Result]]:
        self._check_open()
        return self._committer.submit(appends, at_once=at_once)

    async def _collected(self, done: asyncio.Future[list[Result]]) -> Sequence[tuple[Recorded, ...] | Conflict]:
        results: list[tuple[Recorded, ...] | Conflict] = []
        for result in await done:
            if isinstance(result, StoreError) and not isinstance(result, Conflict):
                raise result
            results.append(result)
        return results

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> tuple[Recorded, ...]:
        """The events of a run with versions above `after`, up to and with `upto`; () for a run that is not known.

        Raises CodecError for an event that cannot be read, UnknownName for one of a later version of Redraft.
        """
        return await self._in_reader(self._read, run, after, upto)

    async def entries(self, run: str, upto: int | None = None, after: int = 0) -> tuple[Entry, ...]:
        """As `read`, but what cannot be read as an event is an `Unreadable` in its place."""
        return await self._in_reader(self._entries, run, after, upto)

    async def raw(self, run: str) -> Sequence[tuple[int, str, bytes, int]]:
        """The events of a run as they are kept: version, name, bytes, and position (0: not known). Raises NoSuchRun."""
        rows = await self._in_reader(self._recorder.select_events, run)
        if not rows:
            raise NoSuchRun(run)
        return [(row.originator_version, row.topic, row.state, getattr(row, "id", 0)) for row in rows]

    def tail(self, after: int, *, follow: bool = True, limit: int = 500) -> AsyncGenerator[Sequence[Entry], None]:
        """The log after a position, in order, in batches of at most `limit` events (at least 1).

        `follow` waits for more when the end is reached. A row that cannot be read as an event is an `Unreadable` in its
        place: it concerns its run alone. After any error, tail again from the last position that was seen.
        """
        if limit < 1:
            raise ValueError("limit must be at least 1")
        self._check_open()
        return self._tail.follow(after, limit) if follow else self._tail.after(after, limit)

    async def head(self) -> int:
        """The position of the last event of the log, 0 when there is none."""
        return await self._in_reader(self._recorder.max_notification_id) or 0

    async def verify(self, run: str, rows: int | None = None) -> int:
        """How many events a run has, when each is as it was recorded, and follows the one before it.

        `rows` is how many the log has of it, if the caller has read the log; otherwise all of it is looked through.
        Raises Tampered, naming the event, and NoSuchRun. Events taken from the end of the log leave no trace in it.
        """
        there = await self._in_reader(_scan, self._recorder, run) if rows is None else rows
        version, previous = 0, GENESIS
        while step := await self._in_reader(_verify, self._recorder, run, version, previous):
            version, previous = step
        if version == there == 0:
            raise NoSuchRun(run)
        if version < there:
            raise Tampered(f"event {version + 1} of run {run} is in the log, but cannot be found under its run")
        return version

    async def verify_all(self, marks: Collection[int] = ()) -> Report:
        """Verifies every event of the log, every run, and what holds them; see `verification`. It tells all faults.

        `marks` are positions at which the digest of the log is wanted. Memory stays bounded; what is recorded meanwhile
        is left out. Raises StoreError when the store cannot be reached.
        """
        check = LogCheck(self._rows(), self._keyring.keys, await self.head(), marks, self._check)
        try:
            while await self._in_reader(check.step):
                pass
        except StoreError:
            if not await self._in_reader(check.is_place_damaged):
                raise
        return check.report()

    def copying(self) -> Copying:
        """A way to the rows themselves, for archives; see `copying`."""
        self._check_open()
        return Copying(self._recorder, self._keyring, self._where, self._in_reader, self._writes)

    async def is_sealed(self, run: str) -> bool:
        """Whether the store holds a key that the texts of a run are sealed with."""
        return await self._in_reader(self._keyring.keys.get, run) is not None

    async def is_imported(self, run: str) -> bool:
        """Whether events of a run came out of an archive: then somebody else may have written its plan and its texts.

        A fork is imported when the run that it was forked from is.
        """
        seen: set[str] = set()
        while run and run not in seen:
            if await self._in_reader(self._keyring.keys.is_imported, run):
                return True
            seen.add(run)
            first = await self.read(run, upto=1)
            begun = first[0].data if first else None
            run = begun.parent.run if isinstance(begun, RunStarted) and begun.parent is not None else ""
        return False

    async def destroy_key(self, run: str) -> bool:
        """Makes the texts of a run unreadable, for ever; False when it has no key (any more).

        What was recorded stays as it is, and is still verified. The run should have ended: nothing that holds a text
        can be recorded of it from now on.
        """
        gone = await self._in_reader(self._keyring.keys.destroy, run)
        self._forget(run)
        return gone

    async def close(self) -> None:
        """Lets what was handed in be written, ends every tail with a StoreError, and lets go of the files."""
        if self._closed:
            return
        self._closed = True
        await self._committer.drain()
        await self._tail.close(self._closed_line())
        if self._direct is not None:
            self._direct.close()
        await asyncio.to_thread(self._let_go)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _read_log(self, position: int, most: int) -> Sequence[Entry]:
        events = await self._in_reader(self._read_batch, position, most)
        if any(event.name == _ERASED for event in events):
            self._tail.forget()
        return events

    def _rows(self) -> Rows:
        if not isinstance(self._recorder, Rows):
            raise StoreError(f"store {self._where}: {type(self._recorder).__name__} cannot be read run by run")
        return self._recorder

    def _read(self, run: str, after: int, upto: int | None) -> tuple[Recorded, ...]:
        return tuple(self._decode(row) for row in self._recorder.select_events(run, gt=after, lte=upto))

    def _read_batch(self, position: int, most: int) -> Sequence[Entry]:
        if isinstance(self._recorder, Rows):
            return [self._entry(row) for row in self._recorder.select_after(position, most, READ_BYTES)]
        rows = self._recorder.select_notifications(position, most, inclusive_of_start=False)
        return [self._entry(row) for row in rows]

    def _entries(self, run: str, after: int, upto: int | None) -> tuple[Entry, ...]:
        return tuple(self._entry(row) for row in self._recorder.select_events(run, gt=after, lte=upto))

    def _entry(self, row: StoredEvent) -> Entry:
        try:
            return self._decode(row)
        except (CodecError, Tampered) as error:
            return unreadable(row, error)

    def _decode(self, row: StoredEvent) -> Recorded:
        run, version, position = place_of(row)
        if row.topic == _ERASED:
            self._keyring.drop(run)
        try:
            return decode_event(run, version, row.topic, row.state, position, self._keyring.opener)
        except TypeError as error:
            raise CodecError(f"event {version} of run {run} cannot be read: it holds no text") from error

    def _landed(self, appends: Sequence[Landed]) -> None:
        self._tail.landed(appends)
        for append in appends:
            if append.events[-1].name == _ERASED:
                self._forget(append.events[-1].run)

    def _forget(self, run: str) -> None:
        """Lets go of what is held of a run that was erased."""
        self._keyring.drop(run)
        self._tail.forget()

    async def _in_reader(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        self._check_open()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._reads, partial(call, *args, **kwargs))
        except PersistenceError as error:
            raise StoreError(f"store {self._where}: {explain(error)}") from error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(self._closed_line())

    def _closed_line(self) -> str:
        return f"store {self._where} is closed"

    def _let_go(self) -> None:
        self._writes.shutdown()
        self._reads.shutdown()
        self._keyring.keys.close()
        self._release()


def thread(name: str) -> Executor:
    """Makes a thread of this name that does one call after the other."""
    return ThreadPoolExecutor(1, thread_name_prefix=name)


def _verify(recorder: ApplicationRecorder, run: str, version: int, previous: str) -> tuple[int, str] | None:
    """Verifies the next events of a run; gives the last version and its hash, or None when there are no more."""
    rows = recorder.select_events(run, gt=version, limit=_VERIFIED_AT_ONCE)
    for row in rows:
        if row.originator_version != version + 1:
            raise Tampered(f"event {version + 1} of run {run} is missing: it was taken out")
        version += 1
        previous = verify_hash(run, version, row.topic, row.state, previous)
        _verify_place(recorder, run, version, row)
    return (version, previous) if rows else None


def _scan(recorder: ApplicationRecorder, run: str) -> int:
    """How many rows of a run there are at least, whatever an index says of them."""
    return recorder.scan(run) if isinstance(recorder, SQLiteRecorder) else 0


def _verify_place(recorder: ApplicationRecorder, run: str, version: int, row: StoredEvent) -> None:
    """Raises Tampered unless the log has at the event's position what was found under its run.

    A database finds a run's events by an index, which is a copy: the row itself may say something else.
    """
    position = getattr(row, "id", 0)
    if not position:
        return
    found = recorder.select_notifications(position, 1)
    told = [(str(each.originator_id), each.originator_version, each.topic, each.state) for each in found]
    if told != [(run, version, row.topic, row.state)]:
        raise Tampered(f"event {version} of run {run} ({row.topic}) is another one in the log at position {position}")
