"""What the coordinator does when its idea of a run is out of date, or a message makes no sense."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from redraft.actors.coordinator import BATCH, Coordinator
from redraft.events.bus import DELIVERY_LIMIT, INBOX, Letter
from redraft.events.codec import encode_message
from redraft.events.commands import ConfirmStep, Critiqued, Generated, Message, Refined, StartRun
from redraft.events.conditions import score
from redraft.events.content import Brief, Critique, DraftRef, digest
from redraft.events.domain_events import DraftCritiqued, DraftGenerated, DraftRefined, RunStarted, StepFailed
from redraft.events.envelope import Origin
from redraft.events.local_bus import LocalBus
from redraft.events.plan import Plan, Repeat, Step
from redraft.events.store import EventStore, open_store

WRITE, JUDGE = Step("generator", "write", "write"), Step("critic", "judge", "judge")
IMPROVE, SAVE = Step("refiner", "improve", "improve"), Step("publisher", "save", "save")
PLAN = Plan("p", (WRITE, Repeat("Refinement", score >= 0.9, 3, (JUDGE, IMPROVE)), SAVE))
START = StartRun("r", PLAN, Brief("b"))
DRAFT = DraftRef(1, digest("one"))
JUDGED = Critiqued("r", "Refinement[1]/judge", 1, DRAFT, Critique(0.5))

numbers = count()


def letter(message: Message) -> Letter:
    name, body = encode_message(message)
    return Letter(name, body, Origin(f"message{next(numbers)}", "test", correlation=message.run), message.run)


@pytest.fixture(params=["sqlite", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventStore]:
    """On SQLite a commit takes its time, and the coordinator decides meanwhile; in memory it is done at once."""
    async with open_store(f"sqlite:///{tmp_path / 'log.db'}" if request.param == "sqlite" else "memory:") as opened:
        yield opened


@asynccontextmanager
async def coordinating(store: EventStore, *resent: tuple[str, str, int]) -> AsyncIterator[tuple[LocalBus, Coordinator]]:
    """A coordinator as a new process would have it: it knows nothing of the log's runs yet."""
    async with LocalBus() as bus:

        async def resend(run: str, path: str, sent: int) -> None:
            sent_again.append((run, path, sent))

        sent_again: list[tuple[str, str, int]] = []
        coordinator = Coordinator(store, bus, lambda: datetime.now(UTC), resend)
        task = asyncio.create_task(coordinator.run())
        try:
            yield bus, coordinator
            assert sent_again == list(resent)
        finally:
            task.cancel()
            await asyncio.wait([task])


async def until_recorded(store: EventStore, kind: type, number: int = 1) -> None:
    async with asyncio.timeout(10):
        seen = 0
        async for batch in store.tail(0):
            seen += sum(isinstance(event.data, kind) for event in batch)
            if seen >= number:
                return


async def begun(store: EventStore) -> None:
    async with coordinating(store) as (bus, _):
        await bus.publish(INBOX, [letter(START), letter(Generated("r", "write", 1, "one"))])
        await until_recorded(store, DraftGenerated)


async def test_an_outcome_that_is_decided_on_while_a_doubled_start_is_being_written_is_not_lost(store: EventStore):
    """The start is taken to be new until the log objects; what was decided meanwhile on that idea is decided again."""
    await begun(store)
    others = [letter(StartRun(f"other{number}", PLAN, Brief("b"))) for number in range(BATCH - 1)]
    async with coordinating(store) as (bus, _):
        await bus.publish(INBOX, [letter(START), *others, letter(JUDGED)])
        await until_recorded(store, DraftCritiqued)
    events = [event.data for event in await store.read("r")]
    assert len([event for event in events if isinstance(event, RunStarted)]) == 1
    assert len([event for event in events if isinstance(event, DraftCritiqued)]) == 1


@pytest.mark.parametrize("first", range(4))
async def test_a_doubled_start_before_or_behind_an_outcome_changes_nothing(store: EventStore, first: int):
    await begun(store)
    messages = [letter(JUDGED) for _ in range(3)]
    messages.insert(first, letter(START))
    async with coordinating(store) as (bus, _):
        for each in messages:
            await bus.publish(INBOX, [each])
        await until_recorded(store, DraftCritiqued)
    assert await store.verify("r") == len(await store.read("r"))


async def test_two_coordinators_on_one_log_lose_nothing_and_double_nothing(store: EventStore):
    runs = [f"r{number}" for number in range(40)]
    async with (
        coordinating(store) as (one, _),
        coordinating(store) as (two, _),
    ):
        for run in runs:
            for bus in (one, two):
                outcomes = [
                    StartRun(run, PLAN, Brief("b")),
                    Generated(run, "write", 1, "one"),
                    Critiqued(run, "Refinement[1]/judge", 1, DRAFT, Critique(0.5)),
                ]
                await bus.publish(INBOX, [letter(each) for each in outcomes])
        await until_recorded(store, DraftCritiqued, len(runs))
        for run in runs:
            kinds = [type(event.data).__name__ for event in await store.read(run)]
            assert kinds == [
                "RunStarted",
                "StepRequested",
                "DraftGenerated",
                "IterationStarted",
                "StepRequested",
                "DraftCritiqued",
                "StepRequested",
            ]


async def test_an_outcome_is_not_ignored_because_another_coordinator_knows_more(store: EventStore):
    """Ours has the run as it was; the other has recorded the critique since, and so asked for the refinement."""
    async with coordinating(store) as (ours, _), coordinating(store) as (others, _):
        await ours.publish(INBOX, [letter(START), letter(Generated("r", "write", 1, "one"))])
        await until_recorded(store, DraftGenerated)
        await others.publish(INBOX, [letter(JUDGED)])
        await until_recorded(store, DraftCritiqued)
        await ours.publish(INBOX, [letter(Refined("r", "Refinement[1]/improve", 1, "two"))])
        await until_recorded(store, DraftRefined)
    assert await store.verify("r") == len(await store.read("r"))


async def test_a_doubtful_request_is_sent_again_only_while_it_is_open(store: EventStore):
    await begun(store)
    async with coordinating(store, ("r", "Refinement[1]/judge", 3)) as (bus, coordinator):
        await bus.publish(
            INBOX,
            [
                letter(ConfirmStep("r", "write", 1, 2)),
                letter(ConfirmStep("r", "Refinement[1]/judge", 1, 2)),
                letter(JUDGED),
            ],
        )
        await until_recorded(store, DraftCritiqued)
        await bus.publish(INBOX, [letter(ConfirmStep("r", "Refinement[1]/judge", 1, 2)), letter(JUDGED)])
        await bus.publish(INBOX, [letter(StartRun("other", PLAN, Brief("b")))])
        await until_recorded(store, RunStarted, 2)
        assert coordinator.ignored == 3


async def test_a_request_that_no_worker_survives_fails_in_the_end(store: EventStore):
    await begun(store)
    async with coordinating(store) as (bus, _):
        await bus.publish(INBOX, [letter(ConfirmStep("r", "Refinement[1]/judge", 1, DELIVERY_LIMIT))])
        await until_recorded(store, StepFailed)
    failed = next(event.data for event in await store.read("r") if isinstance(event.data, StepFailed))
    assert (failed.kind, failed.attempt) == ("lost", 1)


@pytest.mark.parametrize("run", ["", "a\0b", "a\nb", "x" * 201])
async def test_a_message_for_what_cannot_be_a_run_is_parked_and_the_rest_goes_on(store: EventStore, run: str):
    async with coordinating(store) as (bus, _):
        await bus.publish(INBOX, [letter(Generated(run, "write", 1, "text")), letter(START)])
        await until_recorded(store, RunStarted)
        (parked,) = await bus.parked()
        assert "cannot be the id of a run" in parked.reason


async def test_what_cannot_be_read_is_parked_and_what_is_about_no_run_is_ignored(store: EventStore):
    async with coordinating(store) as (bus, coordinator):
        broken = Letter("outcome.generated.v1", b"{", Origin("x", "somebody"), "r")
        foreign = letter(Generated("nobody", "write", 1, "text"))
        await bus.publish(INBOX, [broken, foreign, letter(START)])
        await until_recorded(store, RunStarted)
        (parked,) = await bus.parked()
        assert parked.letter.origin.id == "x"
        assert "cannot be read" in parked.reason
        assert coordinator.ignored == 1
        assert await store.read("nobody") == ()
