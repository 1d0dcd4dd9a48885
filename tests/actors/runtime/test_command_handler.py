"""Deciding and recording until the log takes it, and what becomes of runs that cannot be handled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random

import pytest
from tests.appending import append_to

from redraft.actors.runtime.coordinating.command_handler import CommandHandler
from redraft.actors.runtime.coordinating.decisions import Incoming, Settled
from redraft.events.backends import open_store
from redraft.events.errors import StoreError
from redraft.events.messages.commands import (
    CancelRun,
    Critiqued,
    EditDraft,
    ExpireStep,
    Generated,
    GuideRun,
    Message,
    PauseRun,
    QuarantineRun,
    StartRun,
    SteeringMessage,
)
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Brief, Critique, DraftRef, digest
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftCritiqued,
    LoopEnded,
    RunGuided,
    RunQuarantined,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Origin
from redraft.events.messages.plan import RULES, Plan, Repeat, Step
from redraft.events.messages.usage import Usage
from redraft.events.store.event_store import EventStore, NewEvent

NOW = datetime(2026, 3, 1, tzinfo=UTC)
JUDGE, IMPROVE = Step("critic", "judge", "judge"), Step("refiner", "improve", "improve")
PLAN = Plan("p", (Step("generator", "write", "write"), Repeat("Loop", score >= 0.9, 3, (JUDGE, IMPROVE))))
WRITTEN = Generated("r", "write", 1, "one")
JUDGED = Critiqued("r", "Loop[1]/judge", 1, DraftRef(1, digest("one")), Critique(0.5))
GUIDED = GuideRun("r", "shorter", by="ann")

numbers = count()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventStore]:
    async with open_store("memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/log.db") as opened:
        yield opened


def handler_on(store: EventStore, told: list[tuple[str, str]] | None = None) -> CommandHandler:
    async def resend(run: str, path: str, sent: int) -> None:
        raise AssertionError("nobody asked")

    def report(run: str, why: str) -> None:
        if told is not None:
            told.append((run, why))

    return CommandHandler(store, lambda: NOW, resend, report=report)


async def carried_out(handler: CommandHandler, message: Message, message_id: str = "") -> Settled:
    return await handler.carry_out(message, Origin(message_id or f"message{next(numbers)}", "test"))


async def begin(handler: CommandHandler, run: str = "r") -> None:
    assert (await carried_out(handler, StartRun(run, PLAN, Brief("b")))).recorded


async def kinds(store: EventStore, run: str = "r") -> list[type]:
    return [type(event.data) for event in await store.read(run)]


async def put(store: EventStore, run: str, version: int, event: DomainEvent) -> None:
    new = NewEvent(Origin(f"put{next(numbers)}", "test"), NOW, event)
    await append_to(store, run, version, [new])


@pytest.mark.parametrize("begun", [False, True])
async def test_a_message_whose_events_the_database_never_takes_is_refused_alone(postgres_url: str, begun: bool) -> None:
    """The message's id is that of its event, and too long for PostgreSQL's index of ids."""
    letters = Random(7)
    endless = "".join(chr(letters.randrange(0x20000, 0x2A6D0)) for _ in range(900))
    async with open_store(postgres_url) as store:
        handler = handler_on(store)
        if begun:
            await begin(handler)
        first = GUIDED if begun else StartRun("r", PLAN, Brief("b"))
        incoming = [
            Incoming(first, Origin(endless, "test")),
            Incoming(StartRun("other", PLAN, Brief("b")), Origin("other", "test")),
        ]
        bad, good = await handler.settle(await handler.decide(incoming), None)
        if bad.incoming.message != first:
            bad, good = good, bad
        assert not bad.recorded
        assert "the log cannot record it: index row size" in bad.refused
        assert [type(each.data) for each in good.recorded] == [RunStarted, StepRequested]
        assert (await carried_out(handler, GUIDED if begun else first)).recorded


SHORT = [MemoryError(), RuntimeError("can't start new thread"), ImportError("no such module")]


@pytest.mark.parametrize("short", SHORT, ids=["memory", "threads", "modules"])
async def test_what_this_process_is_short_of_sets_no_run_aside(
    store: EventStore, short: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = handler_on(store)
    await begin(handler)
    handler.forget()

    async def fail(*_: object, **__: object) -> None:
        raise short

    with monkeypatch.context() as patch:
        patch.setattr(store, "read", fail)
        with pytest.raises(StoreError, match="this process is short of something"):
            await carried_out(handler, GUIDED)
    assert (await carried_out(handler, GUIDED)).recorded
    assert RunQuarantined not in await kinds(store)


async def test_what_somebody_else_was_faster_with_is_decided_again(store: EventStore) -> None:
    one, other = handler_on(store), handler_on(store)
    await begin(one)
    await carried_out(one, WRITTEN)
    await carried_out(other, GUIDED)
    settled = await carried_out(one, JUDGED)
    assert type(settled.recorded[0].data) is DraftCritiqued
    assert (await kinds(store)).count(RunGuided) == 1
    assert await store.verify("r") == len(await store.read("r"))


async def test_all_that_was_decided_on_a_conflict_is_decided_again(store: EventStore) -> None:
    """The second and the third message were decided on what the first brought, which was never recorded."""
    one, other = handler_on(store), handler_on(store)
    await begin(one)
    await carried_out(one, WRITTEN)
    await carried_out(other, GUIDED)
    messages = [JUDGED, GuideRun("r", "longer", by="ben"), JUDGED]
    turns = [await one.decide([Incoming(each, Origin(f"m{n}", "test"))]) for n, each in enumerate(messages)]
    settled = [each for turn in turns for each in await one.settle(turn, None)]
    assert [bool(each.recorded) for each in settled] == [True, True, False]
    assert (await kinds(store)).count(DraftCritiqued) == 1
    assert [event.data.advice for event in await store.read("r") if isinstance(event.data, RunGuided)] == [
        "shorter",
        "longer",
    ]


async def test_many_handlers_that_work_on_one_run_at_once_all_have_their_word(store: EventStore) -> None:
    handlers = [handler_on(store) for _ in range(4)]
    await begin(handlers[0])
    words = [GuideRun("r", f"word {n}", by="ann", key=str(n)) for n in range(24)]
    async with asyncio.timeout(30):
        told = await asyncio.gather(*(carried_out(handlers[n % 4], word) for n, word in enumerate(words)))
    assert all(each.recorded for each in told)
    assert (await kinds(store)).count(RunGuided) == 24


@pytest.mark.parametrize("fresh", [True, False])
async def test_an_answer_to_a_request_of_a_log_that_was_set_back_is_refused(store: EventStore, fresh: bool) -> None:
    handler = handler_on(store)
    await begin(handler)
    request = next(event.id for event in await store.read("r") if isinstance(event.data, StepRequested))
    handler = handler_on(store) if fresh else handler
    settled = await handler.carry_out(WRITTEN, Origin("m", "generator write", "message-of-before.1"))
    assert (settled.recorded, settled.barred) == ((), True)
    assert (
        settled.refused
        == f"it answers 'message-of-before.1', and write was asked for by {request!r}: the log was set back"
    )
    assert (await handler.carry_out(WRITTEN, Origin("n", "generator write", request))).recorded
    judged = next(event.id for event in await store.read("r") if getattr(event.data, "path", "") == JUDGED.path)
    assert not (await handler.carry_out(JUDGED, Origin("o", "critic judge", request))).recorded
    assert (await handler.carry_out(JUDGED, Origin("p", "critic judge", judged))).recorded


async def test_a_message_that_comes_again_once_it_is_recorded_changes_nothing(store: EventStore) -> None:
    await begin(handler_on(store))
    assert (await carried_out(handler_on(store), GUIDED, "same")).recorded
    again = await carried_out(handler_on(store), GUIDED, "same")
    assert (again.recorded, again.refused) == ((), "")
    assert (await kinds(store)).count(RunGuided) == 1


async def test_a_message_with_the_id_of_another_runs_message_is_refused(store: EventStore) -> None:
    handler = handler_on(store)
    await begin(handler)
    await begin(handler, "s")
    assert (await carried_out(handler, GUIDED, "same")).recorded
    settled = await carried_out(handler, GuideRun("s", "shorter", by="ann"), "same")
    assert "an event with the id same" in settled.refused
    assert (await carried_out(handler, GuideRun("s", "shorter", by="ann"))).recorded


@pytest.mark.parametrize(
    "message",
    [
        GuideRun("r", "caf\udce9", by="ann"),
        GuideRun("r", "shorter", by="caf\udce9"),
        PauseRun("r", "caf\udce9", "ann"),
        CancelRun("r", "caf\udce9", "ann"),
        QuarantineRun("r", "ann", "caf\udce9"),
    ],
)
async def test_words_that_are_no_unicode_are_refused_and_harm_no_run(
    store: EventStore, message: SteeringMessage
) -> None:
    handler = handler_on(store)
    await begin(handler)
    settled = await carried_out(handler, message)
    assert "character 4 cannot be written as UTF-8" in settled.refused
    assert settled.recorded == ()
    assert (await carried_out(handler, GUIDED)).recorded


async def test_a_run_whose_events_cannot_be_followed_is_set_aside_and_no_other(store: EventStore) -> None:
    told: list[tuple[str, str]] = []
    handler = handler_on(store, told)
    await begin(handler)
    await begin(handler, "s")
    await put(store, "r", 2, LoopEnded("Loop", "accepted", "made up", 1, DraftRef(7, "0" * 64)))
    settled = await carried_out(handler_on(store, told), WRITTEN)
    assert [type(event.data) for event in settled.recorded] == [RunQuarantined]
    assert [run for run, _ in told] == ["r"]
    assert (await kinds(store))[-1] is RunQuarantined
    for message in (WRITTEN, GUIDED, ExpireStep("r", "write", 1)):
        assert (await carried_out(handler, message)).recorded == ()
    assert (await carried_out(handler, Generated("s", "write", 1, "one"))).recorded


@pytest.mark.parametrize("draft", [DraftRef(1, "0" * 64), DraftRef(1, digest("other")), DraftRef(7, digest("one"))])
async def test_an_edit_of_a_draft_that_never_was_is_refused(store: EventStore, draft: DraftRef) -> None:
    handler = handler_on(store)
    await begin(handler)
    await carried_out(handler, WRITTEN)
    before = await kinds(store)
    settled = await carried_out(handler, EditDraft("r", draft, "mine", by="ann"))
    assert settled.refused.startswith(f"run r has no draft {draft.version} with the hash '{draft.sha256[:12]}")
    assert await kinds(store) == before


async def test_an_edit_of_an_earlier_draft_counts(store: EventStore) -> None:
    handler = handler_on(store)
    await begin(handler)
    first = DraftRef(1, digest("one"))
    for message in (WRITTEN, EditDraft("r", first, "two", by="ann"), EditDraft("r", first, "three", by="ann")):
        assert (await carried_out(handler, message)).recorded


async def test_a_person_may_set_any_run_aside_once(store: EventStore) -> None:
    handler = handler_on(store)
    await begin(handler)
    asked = QuarantineRun("r", "ann", "it makes no sense")
    (event,) = (await carried_out(handler, asked)).recorded
    assert event.data == RunQuarantined("ann", "it makes no sense")
    assert (await carried_out(handler, asked)).recorded == ()
    assert "no run" in (await carried_out(handler, QuarantineRun("none", "ann", "why"))).refused


async def test_of_a_run_of_a_later_release_nothing_is_recorded(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []
    handler = handler_on(store, told)
    with monkeypatch.context() as later:
        later.setattr("redraft.events.messages.plan.RULES", RULES + 1)
        await put(store, "r", 0, RunStarted(PLAN, Brief("b"), NOW, rules=RULES + 1))
    settled = await carried_out(handler, WRITTEN)
    assert "later release" in settled.refused
    assert len(await store.entries("r")) == 1
    assert (await carried_out(handler, ExpireStep("r", "write", 1))).refused == ""
    assert [run for run, _ in told] == ["r"]  # once, not for each message


async def test_an_outcome_that_cannot_be_written_fails_its_step(store: EventStore) -> None:
    handler = handler_on(store)
    await begin(handler)
    settled = await carried_out(handler, Generated("r", "write", 1, "one", usage=Usage(tokens=2 * 10**15)))
    failed = settled.recorded[0].data
    assert isinstance(failed, StepFailed)
    assert (failed.kind, failed.retry_at) == ("invalid", None)
    assert "cannot be written" in failed.message
