"""Each content of a draft of several files is stored once within its run, in every store; see `conftest.LOGS`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import count
from random import Random
from typing import Protocol

import msgspec
import pytest

from redraft.events.encryption.cipher import new_master_key, read_master_key
from redraft.events.encryption.keyring import Encryption
from redraft.events.errors import CodecError, Conflict
from redraft.events.messages.codec import GENESIS
from redraft.events.messages.content import Brief, Draft, new_draft
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftEdited,
    DraftGenerated,
    DraftRefined,
    RunErased,
    RunStarted,
    StepFailed,
)
from redraft.events.messages.envelope import Origin, Recorded, Unreadable
from redraft.events.messages.folders import FOLDER, File, print_folder
from redraft.events.messages.plan import Plan, Step
from redraft.events.store.append import encode
from redraft.events.store.event_store import Append, EventStore, NewEvent
from redraft.events.store.recorder import Opened
from redraft.projections.record_check.chain import Row, decode_rows

TIME = datetime(2026, 3, 1, 12, tzinfo=UTC)
RANDOM = Random(7)
LONG = ["".join(RANDOM.choices("abcdefgh \n", k=3_000)) + "\n" for _ in range(6)]
IDS = count()


class Log(Protocol):
    def opened(self) -> Opened: ...
    def store(self, opened: Opened | None = None, poll: float = 0.02) -> EventStore: ...


def text_of(*numbers: int, **more: str | bytes | File) -> str:
    files: dict[str, str | bytes | File] = {f"f{at}.py": LONG[number] for at, number in enumerate(numbers)}
    return print_folder(files | more)


def draft(version: int, *numbers: int, **more: str | bytes | File) -> Draft:
    return new_draft(version, text_of(*numbers, **more), FOLDER)


def begun(*numbers: int) -> RunStarted:
    plan = Plan("p", (Step("generator", "g", "g"),))
    return RunStarted(plan, Brief(text_of(*numbers), FOLDER, "src"), TIME)


def new(*events: DomainEvent) -> tuple[NewEvent, ...]:
    return tuple(NewEvent(Origin(f"id{next(IDS)}", "test"), TIME, event) for event in events)


async def append(store: EventStore, run: str, *events: DomainEvent) -> None:
    before = await store.read(run)
    await store.append(run, len(before), new(*events), before[-1].hash if before else GENESIS)


def history() -> list[DomainEvent]:
    one, two = draft(1, 0, 1), draft(2, 0, 2)
    three = draft(3, 2, 0, binary=bytes(range(256)) * 20, run=File(LONG[3].encode(), executable=True))
    four = draft(4, 4, 2, 2, moved=LONG[0], unended=LONG[3].rstrip("\n"))
    return [
        begun(0, 1),
        DraftGenerated("g", 1, one),
        StepFailed("j", 1, "error", "no"),
        DraftRefined("r", 1, one.ref, two),
        DraftEdited(three, two.ref, "ann"),
        DraftRefined("r", 2, three.ref, four),
        DraftRefined("r", 3, four.ref, draft(5, 0, 1)),
    ]


async def read(store: EventStore, run: str) -> list[DomainEvent]:
    return [event.data for event in await store.read(run)]


async def stored(store: EventStore, run: str) -> str:
    return "".join(state.decode() for _, _, state, _ in await store.raw(run))


async def test_each_content_is_stored_once_and_read_whole(log: Log) -> None:
    events = history()
    async with log.store() as store:
        for event in events:
            await append(store, "r", event)
        bytes_of = await stored(store, "r")
        for content in LONG[:5]:
            assert bytes_of.count(msgspec.json.encode(content[:500])[1:-1].decode()) == 1
        assert await read(store, "r") == events
        assert await store.verify("r") == len(events)
    async with log.store() as store:
        assert await read(store, "r") == events
        tailed = [
            each.data
            async for batch in store.tail(0, follow=False, limit=2)
            for each in batch
            if isinstance(each, Recorded)
        ]
        assert tailed == events
        for version in range(1, len(events) + 1):
            (last,) = await store.read("r", upto=version, after=version - 1)
            assert last.data == events[version - 1]


async def test_all_in_one_append_and_appends_that_build_on_each_other_unrecorded(log: Log) -> None:
    events = history()
    async with log.store() as store:
        await store.append("one", 0, new(*events))
        encoded, version, previous = [], 0, GENESIS
        for event in events:
            encoded.append(await store.encode(Append("many", version, new(event), previous)))
            version, previous = version + 1, encoded[-1].hash
        await store.hand_in(encoded)
        assert await read(store, "one") == await read(store, "many") == events
        sizes = [len(await stored(store, run)) for run in ("one", "many")]
        assert abs(sizes[0] - sizes[1]) < 100


async def test_two_writers_leave_out_only_what_the_run_has(log: Log) -> None:
    opened = log.opened()
    async with log.store(opened) as one, log.store() as two:
        await append(one, "r", begun(0), DraftGenerated("g", 1, draft(1, 0)))
        last = (await two.read("r"))[-1]
        lost = await one.encode(Append("r", 2, new(DraftGenerated("a", 1, draft(2, 1, 2))), last.hash))
        await append(two, "r", DraftGenerated("b", 1, draft(2, 3)))
        (result,) = await one.hand_in([lost])
        assert isinstance(result, Conflict)
        for number, store in enumerate((one, two, one, two, one)):
            await append(store, "r", DraftGenerated(f"c{number}", 1, draft(3 + number, number, 1, 2)))
        for store in (one, two):
            events = await read(store, "r")
            assert [each.draft for each in events if isinstance(each, DraftGenerated)] == [
                draft(1, 0),
                draft(2, 3),
                *(draft(3 + number, number, 1, 2) for number in range(5)),
            ]


async def test_the_same_append_again_is_recorded_already(log: Log) -> None:
    events = [new(event) for event in history()]
    async with log.store() as store, log.store() as other:
        version, previous = 0, GENESIS
        for each in events:
            first = await store.append("r", version, each, previous)
            assert await store.append("r", version, each, previous) == first
            assert await other.append("r", version, each, previous) == first
            version, previous = version + 1, first[-1].hash


async def test_contents_are_sealed_and_gone_with_the_key(log: Log) -> None:
    encryption = Encryption(read_master_key(new_master_key(), "here"))
    events = history()
    async with EventStore(log.opened(), poll=0.02, encryption=encryption) as store:
        for event in events:
            await append(store, "r", event)
        size = len(await stored(store, "r"))
        assert LONG[0][:100] not in await stored(store, "r")
        assert await read(store, "r") == events
        await store.append("plain", 0, new(*events))
        assert abs(len(await stored(store, "plain")) - size) < 1_000
        await store.destroy_key("r")
        await append(store, "r", RunErased("", "ann"))
        erased = await read(store, "r")
        assert not any(LONG[0][:50] in repr(event) for event in erased)
        assert await read(store, "plain") == events
    async with EventStore(log.opened(), poll=0.02, encryption=encryption) as store:
        assert not any(LONG[0][:50] in repr(event) for event in await read(store, "r"))


async def test_a_content_that_is_nowhere_makes_one_event_unreadable(log: Log) -> None:
    async with log.store() as store:
        named = (
            draft(2, 0, 1).text.replace(f"{LONG[0]}", "", 1).replace("=== f0.py", f"=== f0.py | sha256 {'0' * 64}", 1)
        )
        foreign = Draft(2, named, "0" * 64, FOLDER)
        events = new(begun(0, 1), DraftGenerated("g", 1, foreign), StepFailed("j", 1, "error", "no"))
        whole = Append("r", 0, events)
        with pytest.raises(CodecError, match="lacks one of them"):
            await store.encode(whole)
        await store.hand_in([encode(whole)])  # as a stranger writes it
        with pytest.raises(CodecError, match="event 2 of run r cannot be read: it names the content"):
            await store.read("r")
        first, broken, last = await store.entries("r")
        assert isinstance(broken, Unreadable)
        assert isinstance(first, Recorded)
        assert isinstance(last, Recorded)
        rows = [Row(version, name, state, position) for version, name, state, position in await store.raw("r")]
        _, findings = decode_rows("r", rows)
        assert [(each.code, each.version) for each in findings] == [("unreadable", 2)]


async def test_a_brief_that_is_no_folder_is_kept_as_it_is(log: Log) -> None:
    plan = Plan("p", (Step("generator", "g", "g"),))
    async with log.store() as store:
        for number, text in enumerate(("no folder\n=== a.py\nx\n", "hello", " === a\n", "=== a.py\nx = 1")):
            await append(store, f"r{number}", RunStarted(plan, Brief(text, FOLDER), TIME))
            (event,) = await store.read(f"r{number}")
            assert isinstance(event.data, RunStarted)
            assert event.data.brief.text == text


async def test_the_checker_reads_the_same_by_code_of_its_own(log: Log) -> None:
    events = history()
    async with log.store() as store:
        for event in events:
            await append(store, "r", event)
        rows = [Row(version, name, state, position) for version, name, state, position in await store.raw("r")]
    decoded, findings = decode_rows("r", rows)
    assert ([each.data for each in decoded], findings) == (events, [])


async def test_many_random_histories_by_several_stores(log: Log) -> None:
    random = Random(11)
    opened = [log.opened() for _ in range(3)]
    stores = [log.store(each) for each in opened]
    try:
        for number in range(6):
            run, made = f"run{number}", [begun(*random.choices(range(6), k=3))]
            await append(stores[0], run, made[0])
            for version in range(1, 8):
                event = DraftGenerated(
                    f"g{version}", 1, draft(version, *random.choices(range(6), k=random.randint(1, 5)), small="x = 1\n")
                )
                await append(random.choice(stores), run, event)
                made.append(event)  # type: ignore[arg-type]
            for store in stores:
                assert await read(store, run) == made
            assert len(await stored(stores[0], run)) < 6 * 3_400 + 8 * 1_600
    finally:
        await asyncio.gather(*(store.close() for store in stores))
