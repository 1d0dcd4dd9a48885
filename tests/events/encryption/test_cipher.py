"""Texts that are encrypted at rest: what is stored, who can read it, and what is left when a run's key is destroyed."""

from __future__ import annotations

import asyncio
import json
import runpy
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
from tests.appending import append_to

from redraft.events.backends import open_recorder
from redraft.events.encryption.cipher import Cipher, new_master_key, new_run_key, read_master_key, unwrap_key, wrap_key
from redraft.events.encryption.keyring import TABLE, DatabaseKeys, Encryption
from redraft.events.errors import Conflict, EncryptionKeyMissing, RunBarred, Tampered
from redraft.events.messages.codec import GENESIS, decode_event, encode_event
from redraft.events.messages.content import Brief, Critique, DraftRef, new_draft
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftCritiqued,
    DraftGenerated,
    RunEnded,
    RunErased,
    RunStarted,
)
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.plan import Plan, Step
from redraft.events.messages.redaction import ERASED, STRUCTURE
from redraft.events.sqlite import file as sqlite_file
from redraft.events.sqlite.recorder import SqliteKeyTables
from redraft.events.store.event_store import Append, EventStore, NewEvent
from redraft.events.store.recorder import Opened

GOLDEN = runpy.run_path(str(Path(__file__).parents[2] / "golden" / "write.py"))
EVENTS: list[DomainEvent] = list(GOLDEN["events"]())
TIME = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRETS = ("the brief of Ada", "a draft of hers", "too long by half", "notes.md", "say less")
ENCRYPTION = Encryption(read_master_key(new_master_key(), "here"))


class Log(Protocol):
    def opened(self) -> Opened: ...


def told(run: str) -> list[NewEvent]:
    draft = new_draft(1, SECRETS[1])
    events: list[DomainEvent] = [
        RunStarted(
            Plan("p", (Step("generator", "g", "g", options={"say": SECRETS[4]}),)),
            Brief(SECRETS[0], "", SECRETS[3]),
            TIME,
        ),
        DraftGenerated("g", 1, draft),
        DraftCritiqued("j", 1, draft.ref, Critique(0.5, weaknesses=(SECRETS[2], SECRETS[4]))),
        RunEnded("accepted", "", 0, draft.ref),
    ]
    return [NewEvent(Origin(f"{run}/{n}", "test"), TIME, event) for n, event in enumerate(events)]


def sealing(log: Log, encryption: Encryption | None = ENCRYPTION) -> EventStore:
    return EventStore(log.opened(), poll=0.02, encryption=encryption)


async def whole(store: EventStore) -> list[Recorded]:
    return [event async for batch in store.tail(0, follow=False, limit=3) for event in batch]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_can_be_sealed_opened_and_read_without_its_texts(event: DomainEvent) -> None:
    cipher = Cipher("r", new_run_key())
    stored = encode_event("r", 1, GENESIS, TIME, Origin("i", "a"), event, cipher)
    assert decode_event("r", 1, stored.name, stored.state, 0, lambda _: cipher).data == event
    blank = decode_event("r", 1, stored.name, stored.state, 0, lambda _: None).data
    assert type(blank) is type(event)
    clear = json.loads(encode_event("r", 1, GENESIS, TIME, Origin("i", "a"), event).state)["data"]
    assert structure(json.loads(stored.state)["data"]) == structure(clear)


def structure(data: object) -> object:
    """Data without strings that are sentences, digests or file names, and without options and details."""
    match data:
        case dict():
            whole = ("options", "details", "state")
            return {name: None if name in whole else structure(each) for name, each in data.items()}
        case list():
            return [structure(each) for each in data]
        case str() if data in WORDS:
            return data
        case str():
            return None
        case _:
            return data


WORDS = {
    "accepted", "approved", "cancelled", "critic", "error", "errors", "exhausted", "failed", "generator", "publisher",
    "refiner", "repeat", "score", "step", "timeout", "parallel",
}  # fmt: skip


async def test_what_is_stored_holds_no_text_and_what_is_read_does(log: Log) -> None:
    async with sealing(log) as store:
        recorded = await append_to(store, "a", 0, told("a"))
        raw = b"".join(state for _, _, state, _ in await store.raw("a"))
        assert not [secret for secret in SECRETS if secret.encode() in raw]
        assert new_draft(1, SECRETS[1]).sha256.encode() not in raw
        assert await store.read("a") == recorded
        assert await store.verify("a") == 4
    async with sealing(log) as again:
        assert await again.read("a") == recorded == tuple(await whole(again))


@pytest.mark.parametrize(
    "other", [None, Encryption(read_master_key(new_master_key(), "here"))], ids=["none", "another"]
)
async def test_without_the_key_the_chain_is_verified_and_nothing_is_read(log: Log, other: Encryption | None) -> None:
    async with sealing(log) as store:
        await append_to(store, "a", 0, told("a"))
    async with sealing(log, other) as stranger:
        assert await stranger.verify("a") == 4
        with pytest.raises(EncryptionKeyMissing, match="REDRAFT_ENCRYPT_KEY"):
            await stranger.read("a")
        with pytest.raises(EncryptionKeyMissing):
            await whole(stranger)


async def test_a_run_whose_key_is_destroyed_is_verified_and_reads_as_erased(log: Log) -> None:
    async with sealing(log) as store, sealing(log) as other:
        await append_to(store, "a", 0, told("a"))
        kept = await append_to(store, "b", 0, told("b"))
        assert await other.read("a") == await store.read("a")
        assert await store.copying().key("a")
        assert await store.destroy_key("a")
        assert not await store.destroy_key("a")
        await append_to(store, "a", 4, [NewEvent(Origin("x", "test"), TIME, RunErased("ada"))])
        await whole(other)
        for asked in (store, other):
            events = await asked.read("a")
            assert not [secret for secret in SECRETS if secret in repr(events)]
            assert isinstance(events[0].data, RunStarted)
            assert events[0].data.brief.text == ERASED
            assert events[2].data == DraftCritiqued(
                "j", 1, DraftRef(1, ERASED), Critique(0.5, weaknesses=(ERASED, ERASED))
            )
            assert await asked.verify("a") == 5
            assert await asked.read("b") == kept
            assert [event for event in await whole(asked) if event.run == "a"] == list(events)


async def test_a_run_that_is_barred_never_begins_here_or_elsewhere(log: Log) -> None:
    async with sealing(log) as store, sealing(log) as other:
        await append_to(store, "a", 0, told("a"))
        for _ in range(2):
            await store.bar("b")
        for asked in (store, other):
            with pytest.raises(RunBarred, match="run b cannot begin: it is that of an item of a run that was erased"):
                await append_to(asked, "b", 0, told("b"))
            assert not await asked.has_key("b")
            assert not await asked.copying().key("b")
    async with sealing(log) as again:
        with pytest.raises(RunBarred):
            await append_to(again, "b", 0, told("b"))
        await append_to(again, "c", 0, told("c"))
        assert {event.run for event in await whole(again)} == {"a", "c"}
        assert await again.verify("a") == 4


async def test_a_run_that_is_barred_while_it_begins_reads_as_erased(log: Log) -> None:
    async with sealing(log) as store:
        await append_to(store, "a", 0, told("a"))
        await store.bar("a")
        assert not [secret for secret in SECRETS if secret in repr(await store.read("a"))]
        await append_to(store, "a", 4, [NewEvent(Origin("x", "test"), TIME, RunErased("ada"))])
        assert await store.verify("a") == 5


async def test_other_processes_go_on_with_a_sealed_run_and_know_a_repeated_append(log: Log) -> None:
    events = told("a")
    async with sealing(log) as one, sealing(log) as two:
        first = await append_to(one, "a", 0, events[:2])
        second = await append_to(two, "a", 2, events[2:])
        assert await append_to(two, "a", 0, events[:2]) == first
        assert await append_to(one, "a", 2, events[2:]) == second
        with pytest.raises(Conflict):
            await append_to(two, "a", 2, told("late")[2:])
        assert not [secret for secret in SECRETS if secret.encode() in b"".join(raw[2] for raw in await one.raw("a"))]


async def test_two_processes_that_begin_a_run_at_once_use_one_key(log: Log) -> None:
    async with sealing(log) as one, sealing(log) as two:
        tries = [append_to((one, two)[n % 2], f"r{n // 2}", 0, told(f"try {n}")) for n in range(20)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(isinstance(result, Conflict) for result in results) == 10
        for n in range(10):
            assert await one.read(f"r{n}") == await two.read(f"r{n}")


async def test_runs_that_began_in_the_clear_go_on_in_the_clear(log: Log) -> None:
    events = told("a")
    async with sealing(log, None) as plain:
        await append_to(plain, "a", 0, events[:2])
    async with sealing(log) as store, sealing(log, Encryption(ENCRYPTION.master, new_runs=False)) as reading:
        await append_to(store, "a", 2, events[2:])
        assert not await store.copying().key("a")
        await append_to(reading, "b", 0, told("b"))
        assert not await store.copying().key("b")
        await append_to(store, "c", 0, told("c")[:2])
        await append_to(reading, "c", 2, told("c")[2:])
        assert SECRETS[2].encode() not in (await store.raw("c"))[2][2]
    async with sealing(log, None) as plain:
        assert len(await plain.read("a")) == len(await plain.read("b")) == 4


async def test_in_a_store_that_encrypts_nothing_begins_in_the_clear(log: Log) -> None:
    async with sealing(log, None) as plain, sealing(log) as store:
        await append_to(plain, "before", 0, told("before")[:1])
        await append_to(store, "a", 0, told("a"))
        with pytest.raises(
            EncryptionKeyMissing, match="the store encrypts its runs, and no key is given here, so no run can begin"
        ):
            await append_to(plain, "b", 0, told("b"))
        await append_to(plain, "before", 1, told("before")[1:2])
        assert await store.destroy_key("a")
        with pytest.raises(EncryptionKeyMissing, match="so no run can begin"):
            await append_to(plain, "b", 0, told("b"))
        assert {event.run for event in await whole(store)} == {"before", "a"}
    async with sealing(log, Encryption(ENCRYPTION.master, new_runs=False)) as reading:
        await append_to(reading, "c", 0, told("c"))
        assert await reading.copying().key("c")


@pytest.mark.parametrize("mark", ["of today", "of an earlier release"])
async def test_in_a_store_that_encrypts_nothing_begins_with_another_key(log: Log, mark: str) -> None:
    other = Encryption(read_master_key(new_master_key(), "there"))
    async with sealing(log, None) as plain:
        if mark == "of an earlier release":
            await plain.copying().put_key("", b"sealed")
    async with sealing(log) as store:
        await append_to(store, "a", 0, told("a"))
    for encryption in (other, Encryption(other.master, new_runs=False)):
        async with sealing(log, encryption) as theirs:
            with pytest.raises(EncryptionKeyMissing, match="the key given here is not its own, so no run can begin"):
                await theirs.require_sealing()
            with pytest.raises(EncryptionKeyMissing, match="so no run can begin"):
                await append_to(theirs, "b", 0, told("b"))
    async with sealing(log) as store:
        assert await store.require_sealing()
        await append_to(store, "c", 0, told("c"))
        assert {event.run for event in await whole(store)} == {"a", "c"}


async def test_what_is_handed_in_before_its_run_is_recorded_is_sealed_by_the_same_key(log: Log) -> None:
    events = told("a")
    async with sealing(log) as store:
        appends = [await store.encode(Append("a", 0, (events[0],)))]
        for version, event in enumerate(events[1:], 1):
            appends.append(await store.encode(Append("a", version, (event,), appends[-1].hash)))
        await asyncio.gather(*(store.hand_in([each]) for each in appends))
        assert [event.data for event in await store.read("a")] == [event.data for event in events]
        assert await store.verify("a") == 4


def files(folder: Path) -> Iterator[bytes]:
    yield from (path.read_bytes() for path in folder.iterdir())


async def test_a_destroyed_key_is_nowhere_in_the_files_of_the_store(tmp_path: Path) -> None:
    from redraft.events.backends import open_store

    async with open_store(f"sqlite:///{tmp_path}/log.db", encryption=ENCRYPTION) as store:
        for run in ("a", "b"):
            await append_to(store, run, 0, told(run))
        kept = dict(store._keyring.keys.page("", 10))
        assert any(kept["a"] in each for each in files(tmp_path))
        await store.destroy_key("a")
        assert not any(kept["a"] in each for each in files(tmp_path))
        assert any(kept["b"] in each for each in files(tmp_path))


async def test_destroying_again_removes_what_a_killed_process_left_of_a_key(tmp_path: Path) -> None:
    from redraft.events.backends import open_store

    async with open_store(f"sqlite:///{tmp_path}/log.db", encryption=ENCRYPTION) as store:
        await append_to(store, "a", 0, told("a"))
        keys = store._keyring.keys
        assert isinstance(keys, DatabaseKeys)
        wrapped = keys.get("a")
        assert wrapped is not None
        keys._tables.ask(TABLE, "DELETE FROM {} WHERE run = ?", "a")  # and then it was killed
        assert any(wrapped in each for each in files(tmp_path))
        assert not await store.destroy_key("a")
        assert not any(wrapped in each for each in files(tmp_path))


@pytest.fixture
def leaving(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An SQLite that was compiled to leave what is deleted where it is."""
    connect = sqlite3.connect

    def plain(*given: object, **named: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **named)  # type: ignore[call-overload]
        connection.execute("PRAGMA secure_delete=OFF")
        return connection

    monkeypatch.setattr(sqlite_file.sqlite3, "connect", plain)
    yield
    monkeypatch.undo()


def test_every_connection_that_writes_overwrites_what_it_deletes(leaving: None, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    opened = open_recorder(f"sqlite:///{path}")
    asked = "PRAGMA secure_delete"
    for commits in (True, False):
        with opened.recorder.datastore.transaction(commit=commits) as cursor:  # type: ignore[attr-defined]
            cursor.execute(asked)
            assert tuple(cursor.fetchone()) == (1,)
    with opened.recorder.writing() as connection:  # type: ignore[attr-defined]
        assert connection.execute(asked).fetchone() == (1,)
    assert isinstance(opened.keys, DatabaseKeys)
    assert isinstance(opened.keys._tables, SqliteKeyTables)
    with opened.keys._tables.connection.lend() as connection:
        assert connection.execute(asked).fetchone() == (1,)
    opened.keys.close()
    opened.release()


def test_a_sealed_text_opens_at_its_own_place_alone() -> None:
    cipher = Cipher("r", new_run_key())
    sealed = cipher.seal(3, "draft.generated.v1", [(("draft", "text"), "hers")])
    assert cipher.open(3, "draft.generated.v1", sealed) == [(("draft", "text"), "hers")]
    opened: list[Callable[[], Any]] = [
        lambda: cipher.open(4, "draft.generated.v1", sealed),
        lambda: cipher.open(3, "draft.refined.v1", sealed),
        lambda: Cipher("r", new_run_key()).open(3, "draft.generated.v1", sealed),
        lambda: cipher.open(3, "draft.generated.v1", "AAAA" + sealed[4:]),
        lambda: cipher.open(3, "draft.generated.v1", "no base64"),
    ]
    for each in opened:
        with pytest.raises(Tampered, match="cannot be opened with the run's key"):
            each()


def test_a_wrapped_key_opens_with_its_master_key_alone() -> None:
    key = new_run_key()
    kept = wrap_key(ENCRYPTION.master, key)
    assert unwrap_key(ENCRYPTION.master, "r", kept) == key
    other = bytes([kept[0] ^ 1]) + kept[1:]
    for master, given in ((b"x" * 32, kept), (ENCRYPTION.master, other), (ENCRYPTION.master, b"")):
        with pytest.raises(EncryptionKeyMissing, match="key of run r"):
            unwrap_key(master, "r", given)


def test_no_key_is_shown() -> None:
    assert "master=…" in repr(ENCRYPTION)
    assert repr(ENCRYPTION.master) not in repr(ENCRYPTION)


def literal_fields(kind: msgspec.inspect.Type, seen: set[str]) -> Iterator[str]:
    """Fields of an event, at any depth, that hold one of a few words."""
    match kind:
        case msgspec.inspect.StructType(cls=cls, fields=fields) if cls.__name__ not in seen:
            seen.add(cls.__name__)
            for field in fields:
                if isinstance(field.type, msgspec.inspect.LiteralType):
                    yield f"{cls.__name__}.{field.name}"
                yield from literal_fields(field.type, seen)
        case msgspec.inspect.UnionType(types=types):
            for each in types:
                yield from literal_fields(each, seen)
        case msgspec.inspect.VarTupleType(item_type=inner):
            yield from literal_fields(inner, seen)
        case _:
            pass


def test_a_word_that_stands_for_itself_is_never_sealed() -> None:
    """An erased event would not be read again if it were."""
    seen: set[str] = set()
    found = {name for kind in EVENT_NAMES for name in literal_fields(msgspec.inspect.type_info(kind), seen)}
    assert len(found) > 5
    sealed = sorted(name for name in found if name.rpartition(".")[2] not in STRUCTURE)
    assert not sealed, f"put the fields {sealed} on the list STRUCTURE of redraft/events/messages/redaction.py"
