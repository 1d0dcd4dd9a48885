"""The event store: an asynchronous front of a recorder, to which rows are only ever added.

Calls do not block the event loop: one thread writes, one reads; where commits are quick, the loop writes a few events
itself (`sqlite.direct_writer`). `group_commit` groups appends, `commit` handles conflicts and lost answers, `tail`
follows the log, and the recorders of `recorder`, `sqlite.recorder` and `postgres.recorder` keep the events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, Self, TypeAlias, TypeVar

from redraft.events.encryption.keyring import Encryption, Keyring, MemoryKeys
from redraft.events.errors import CodecError, Conflict, NoSuchRun, StoreError, Tampered, Unstorable
from redraft.events.messages.codec import GENESIS, decode_event, verify_hash
from redraft.events.messages.domain_events import RunErased, RunQuarantined, RunStarted
from redraft.events.messages.envelope import Entry, Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.memory import memory_decoded, memory_of
from redraft.events.store.append import Append, CommittedAppend, Encoded, NewEvent, NotTaken
from redraft.events.store.folder_contents import HOLDERS, ReadContents, WrittenContents
from redraft.events.store.group_commit import Committer, Inline, Result
from redraft.events.store.raw_rows import RowCopier, place_of, unreadable
from redraft.events.store.recorder import LogRow, Notification, Opened, PersistenceError, Recorder, explain
from redraft.events.store.tail import Tail
from redraft.events.store.verification import LogCheck, Report

__all__ = ["Append", "EventStore", "NewEvent"]

Threads: TypeAlias = Callable[[str], Executor]
"""Makes the executor, by its name, that runs one call after the other; a thread by default."""

READ_BYTES = 8 * 1024 * 1024
"""Bytes of events, as stored and in memory, that one read of the log returns, unless a single event has more."""

_VERIFIED_AT_ONCE = 500
_ERASED = EVENT_NAMES[RunErased]
_P = ParamSpec("_P")
_T = TypeVar("_T")


class EventStore:
    """Events by run, each run a chain of hashes, and all of them in one log.

    Every method raises StoreError when the store is closed or cannot be read or written. A StoreError of an append may
    hide a success: submit the same append (the same ids and times) again, and it is recorded once. Reading raises
    EncryptionKeyMissing for a run whose key is not given; `redaction.ERASED` stands for every text of an erased run.
    """

    def __init__(
        self,
        opened: Opened,
        *,
        poll: float = 0.25,
        encryption: Encryption | None = None,
        threads: Threads | None = None,
    ) -> None:
        """`threads` makes the executors for reading and writing where these may wait."""
        made = threads or thread
        self._opened = opened
        self._recorder = opened.recorder
        self._scan = opened.scan or (lambda run: 0)
        self.where = opened.where
        """The store's name in messages: a path, or a database's URL without its password."""
        self._keyring = Keyring(opened.keys or MemoryKeys(), encryption)
        self._reads: Executor = made("redraft-read") if opened.waits else Inline()
        self._writes: Executor = made("redraft-write") if opened.waits else Inline()
        self._tail = Tail(self._read_log, self.head, poll, opened.listen)
        self._committer = Committer(self._recorder, self.where, self._writes, self._add_committed, opened.direct)
        self._sealing_check: asyncio.Future[bool] | None = None
        self._written = WrittenContents(self._holders, self._run_in_reader)
        self._contents = ReadContents(self._holders)
        self._closed = False

    def longest_wait(self) -> float:
        """Returns for how many seconds the oldest unanswered append has been waiting; 0 when none is."""
        return self._committer.underway.longest()

    def measure_appends(self, report: Callable[[float], None]) -> None:
        """Calls `report` with the seconds that each append takes, from now on."""
        self._committer.on_append = report

    async def append(
        self, run: str, expected_version: int, events: Sequence[NewEvent], previous: str = GENESIS
    ) -> tuple[Recorded, ...]:
        """Records events after the event of a run on which they were decided, all or none, and returns them.

        That event is identified by its version and its hash, `previous`; a new run begins after version 0 and
        `GENESIS`. The events are on disk when it returns. Raises Conflict when the run does not end with that event, or
        one of the ids is in the log already; CodecError when an event cannot be encoded, Unstorable when the database
        never takes it. Cancelling stops the waiting; the events may be recorded all the same.
        """
        (result,) = await self.append_all([Append(run, expected_version, tuple(events), previous)])
        if isinstance(result, Conflict | Unstorable):
            raise result
        return result

    async def append_all(self, appends: Sequence[Append]) -> Sequence[tuple[Recorded, ...] | NotTaken]:
        """Records several appends at once, each all or none; returns a result for each, or why it is not taken.

        Raises CodecError, with nothing recorded, when an event cannot be encoded; the first StoreError of an append,
        when all have been tried.
        """
        encoded = [await self.encode(append) for append in appends]
        self._check_open()
        return await self._collect_results(self._committer.submit(encoded))

    async def encode(self, append: Append, *, looked: bool = False) -> Encoded:
        """Encodes an append, so that more can be decided on it before it is recorded.

        A new run in a store that encrypts gets its key first; `looked` is True after a call of `require_sealing`, so
        that many runs need one look-up. Raises CodecError for an event that cannot be written, EncryptionKeyMissing,
        and Tampered for a run whose key was changed, unless the append quarantines it.
        """
        self._check_open()
        if append.expected_version < 0 or not append.events or not append.run:
            raise ValueError("an append needs a run, an expected version of at least 0, and at least one event")
        if not self._keyring.seals:
            if append.expected_version == 0 and not looked:
                await self.require_sealing()
            return self._written.encode_plain(append, None) or await self._written.encode(append, None)
        known, seal = self._keyring.held(append.run)
        try:
            if not known:
                seal = await self._run_in_reader(self._keyring.sealer, append.run, begins=append.expected_version == 0)
        except Tampered:  # a quarantine can still be recorded, in plain text
            if not all(isinstance(event.data, RunQuarantined) for event in append.events):
                raise
        return self._written.encode_plain(append, seal) or await self._written.encode(append, seal)

    async def require_sealing(self) -> bool:
        """Returns whether new runs of this store are encrypted.

        Raises EncryptionKeyMissing when they are, and no key is given here; StoreError.

        Calls of one turn of the event loop share one look-up, so that their appends are written together.
        """
        if not self._keyring.keys.waits:
            return self._keyring.require_sealing()
        if self._sealing_check is None or self._sealing_check.done():
            self._sealing_check = asyncio.ensure_future(self._run_in_reader(self._keyring.require_sealing))
            self._sealing_check.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._sealing_check)

    def hand_in(self, appends: Sequence[Encoded]) -> Coroutine[None, None, Sequence[tuple[Recorded, ...] | NotTaken]]:
        """Records appends as `append_all` does, but starts writing when it is called and not when it is awaited.

        So a caller can go on deciding meanwhile. An append that builds on a conflicting one conflicts too.
        """
        self._check_open()
        return self._collect_results(self._committer.submit(appends, at_once=True))

    async def _collect_results(self, done: asyncio.Future[list[Result]]) -> Sequence[tuple[Recorded, ...] | NotTaken]:
        results: list[tuple[Recorded, ...] | NotTaken] = []
        for result in await done:
            if isinstance(result, StoreError) and not isinstance(result, Conflict | Unstorable):
                raise result
            results.append(result)
        return results

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> tuple[Recorded, ...]:
        """Returns the events of a run with versions above `after`, up to and with `upto`; () for an unknown run.

        Raises CodecError for an event that cannot be read, UnknownName for one of a later version of Redraft.
        """
        return await self._run_in_reader(self._select, self._decode, run, after, upto)

    async def entries(self, run: str, upto: int | None = None, after: int = 0) -> tuple[Entry, ...]:
        """Works as `read`, with an `Unreadable` in place of each row that cannot be read as an event."""
        return await self._run_in_reader(self._select, self._entry, run, after, upto)

    async def raw(self, run: str) -> Sequence[tuple[int, str, bytes, int]]:
        """Returns the stored events of a run: version, name, bytes, and position. Raises NoSuchRun."""
        rows = await self._run_in_reader(self._recorder.select_events, run)
        if not rows:
            raise NoSuchRun(run)
        return [(row.originator_version, row.topic, row.state, row.id) for row in rows]

    def tail(self, after: int, *, follow: bool = True, limit: int = 500) -> AsyncGenerator[Sequence[Entry], None]:
        """Yields the log after a position, in order, in batches of at most `limit` events (at least 1).

        `follow` waits for more at the end of the log. An `Unreadable` stands in place of a row that cannot be read as
        an event; it concerns its run alone. After any error, tail again from the last position that was seen.
        """
        if limit < 1:
            raise ValueError("limit must be at least 1")
        self._check_open()
        return self._tail.follow(after, limit) if follow else self._tail.after(after, limit)

    async def head(self) -> int:
        """Returns the position of the last event of the log, 0 when there is none."""
        return await self._run_in_reader(self._recorder.max_notification_id) or 0

    async def verify(self, run: str) -> int:
        """Returns the number of events of a run, after checking that each is unchanged and follows the one before it.

        Raises Tampered, naming the event, and NoSuchRun. Events taken from the end of the log leave no trace in it.
        """
        there = await self._run_in_reader(self._scan, run)
        version, previous = 0, GENESIS
        while step := await self._run_in_reader(_verify, self._recorder, run, version, previous):
            version, previous = step
        if version == there == 0:
            raise NoSuchRun(run)
        if version < there:
            raise Tampered(f"event {version + 1} of run {run} is in the log, but cannot be found under its run")
        return version

    async def verify_all(self, marks: Collection[int] = ()) -> Report:
        """Verifies every event of the log, every run, and the database; see `verification`.

        `marks` are positions at which to report the digest of the log. Events recorded meanwhile are left out.
        """
        check = LogCheck(self._recorder, self._keyring, await self.head(), marks, self._opened.check)
        try:
            while await self._run_in_reader(check.step):
                pass
        except StoreError:
            if not await self._run_in_reader(check.is_database_damaged):
                raise
        return check.report()

    async def inspect_guards(self) -> Sequence[str]:
        """Returns the faults of what protects the events in their database, as far as a quick look finds them."""
        look = self._opened.guards
        return (await self._run_in_reader(look)).faults if look is not None else ()

    def copying(self) -> RowCopier:
        """Returns access to the rows themselves, for archives; see `raw_rows`."""
        self._check_open()
        return RowCopier(self._recorder, self._keyring, self.where, self._run_in_reader, self._writes)

    async def is_imported(self, run: str) -> bool:
        """Returns whether events of a run, or of one that it was forked from, came from an archive.

        Then somebody else may have written its plan and its texts.
        """
        seen: set[str] = set()
        while run and run not in seen:
            if await self._run_in_reader(self._keyring.keys.is_imported, run):
                return True
            seen.add(run)
            first = await self.read(run, upto=1)
            begun = first[0].data if first else None
            run = begun.parent.run if isinstance(begun, RunStarted) and begun.parent is not None else ""
        return False

    async def destroy_key(self, run: str) -> bool:
        """Makes the texts of a run unreadable, for ever; returns False when it has no key (any more).

        Its events can still be verified. No event that holds a text can be recorded for it from now on. Raises
        KeyNotOverwritten when the key is deleted, and its bytes may still lie in the database's files.
        """
        try:
            return await self._run_in_reader(self._keyring.keys.destroy, run)
        finally:
            self._forget(run)

    async def bar(self, run: str) -> None:
        """Makes `encode` raise RunBarred for a run that has not begun. Does nothing if the store does not encrypt."""
        await self._run_in_reader(self._keyring.keys.bar, run)
        self._keyring.drop(run)

    async def has_key(self, run: str) -> bool:
        """Returns whether there is a key of a run: not where it was recorded in the clear, or its key was destroyed."""
        return bool(await self._run_in_reader(self._keyring.keys.get, run))

    async def close(self) -> None:
        """Writes what was submitted, ends every tail with a StoreError, and closes the files."""
        if self._closed:
            return
        self._closed = True
        await self._committer.drain()
        await self._tail.close(self._closed_message())
        if self._opened.direct is not None:
            self._opened.direct.close()
        await asyncio.to_thread(self._release_resources)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _read_log(self, position: int, limit: int) -> Sequence[Entry]:
        events = await self._run_in_reader(self._read_batch, position, limit)
        if any(event.name == _ERASED for event in events):
            self._tail.forget()
        return events

    def _select(self, decode: Callable[[Notification], _T], run: str, after: int, upto: int | None) -> tuple[_T, ...]:
        return tuple(decode(row) for row in self._recorder.select_events(run, gt=after, lte=upto))

    def _read_batch(self, position: int, limit: int) -> Sequence[Entry]:
        """Returns the next events; stops after `READ_BYTES` in memory, where wide texts take more than their rows."""
        entries: list[Entry] = []
        size = 0
        for row in self._recorder.select_after(position, limit, READ_BYTES):
            entry = self._entry(row)
            entries.append(entry)
            size += _memory_of(row.state, entry)
            if size >= READ_BYTES:
                break
        return entries

    def _entry(self, row: LogRow | Notification) -> Entry:
        try:
            return self._decode(row)
        except (CodecError, Tampered) as error:
            return unreadable(row, error)

    def _decode(self, row: LogRow | Notification) -> Recorded:
        run, version, position = place_of(row)
        if row.topic == _ERASED:
            self._keyring.drop(run)
            self._contents.drop(run)
        try:
            recorded = decode_event(run, version, row.topic, row.state, position, self._keyring.opener)
            return self._contents.restored(recorded) if row.topic in HOLDERS else recorded
        except TypeError as error:
            raise CodecError(f"event {version} of run {run} cannot be read: it holds no text") from error

    def _holders(self, run: str, upto: int) -> Iterator[Recorded]:
        """Yields the events of a run that hold drafts or a brief, as they are stored."""
        for row in self._recorder.select_events(run, lte=upto):
            if row.topic in HOLDERS:
                yield decode_event(run, row.originator_version, row.topic, row.state, row.id, self._keyring.opener)

    def _add_committed(self, appends: Sequence[CommittedAppend]) -> None:
        self._tail.add_committed(appends)
        for append in appends:
            if append.events[-1].name == _ERASED:
                self._forget(append.events[-1].run)

    def _forget(self, run: str) -> None:
        """Drops the cached key and events of a run that was erased."""
        self._keyring.drop(run)
        self._tail.forget()
        self._reads.submit(self._contents.drop, run)

    async def _run_in_reader(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        self._check_open()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._reads, partial(call, *args, **kwargs))
        except PersistenceError as error:
            raise StoreError(f"store {self.where}: {explain(error)}") from error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(self._closed_message())

    def _closed_message(self) -> str:
        return f"store {self.where} is closed"

    def _release_resources(self) -> None:
        self._writes.shutdown()
        self._reads.shutdown()
        self._keyring.keys.close()
        self._opened.release()


def thread(name: str) -> Executor:
    """Makes a thread of this name that runs one call after the other; it is started now, as later it may not be."""
    executor = ThreadPoolExecutor(1, thread_name_prefix=name)
    executor.submit(lambda: None)
    return executor


def _memory_of(state: object, entry: Entry) -> int:
    """Returns the approximate memory of an event in bytes; that of a sealed one shows in the event alone."""
    stored = memory_decoded(state) if isinstance(state, bytes) else 0
    return max(stored, memory_of(entry.data)) if isinstance(entry, Recorded) else stored


def _verify(recorder: Recorder, run: str, version: int, previous: str) -> tuple[int, str] | None:
    """Verifies the next events of a run; returns the last version and its hash, or None when there are no more."""
    rows = recorder.select_events(run, gt=version, limit=_VERIFIED_AT_ONCE)
    for row in rows:
        if row.originator_version != version + 1:
            raise Tampered(f"event {version + 1} of run {run} is missing: it was taken out")
        version += 1
        previous = verify_hash(run, version, row.topic, row.state, previous)
        _verify_place(recorder, run, version, row)
    return (version, previous) if rows else None


def _verify_place(recorder: Recorder, run: str, version: int, row: Notification) -> None:
    """Raises Tampered unless the log has the same row at the event's position as was found under its run.

    A database finds a run's events by an index, which is a copy: the row itself may differ.
    """
    found = recorder.select_notifications(row.id, 1)
    observed = [(str(each.originator_id), each.originator_version, each.topic, each.state) for each in found]
    if observed != [(run, version, row.topic, row.state)]:
        raise Tampered(
            f"event {version} of run {run} ({row.topic}) differs from the event in the log at position {row.id}"
        )
