"""What the coordinator does when its idea of a run is out of date, or a message makes no sense."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.dead_letters import dead_letters_on

from redraft.actors.deciding.decider import MAX_SENDINGS
from redraft.actors.runtime.coordinating.command_handler import CommandHandler, RunStore
from redraft.actors.runtime.coordinating.coordinator import BATCH, TRIES, Coordinator
from redraft.actors.runtime.coordinating.decisions import PendingResults, Tallies, thompson
from redraft.actors.runtime.coordinating.deferring import ReadTallies
from redraft.events.backends import open_store
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, BusMessage, DeadLetter
from redraft.events.errors import Conflict, StoreError
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import (
    CancelRun,
    ConfirmStep,
    Critiqued,
    Generated,
    Message,
    PauseRun,
    Refined,
    ResumeRun,
    StartRun,
)
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Brief, Critique, DraftRef, digest
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftRefined,
    LoopEnded,
    Parent,
    RunCancelled,
    RunEnded,
    RunPaused,
    RunResumed,
    RunStarted,
    StepFailed,
    StepRequested,
    Tally,
)
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.plan import Arm, Parallel, Plan, Repeat, Step
from redraft.events.store.append import Append, Encoded, encode
from redraft.events.store.event_store import EventStore

WRITE, JUDGE = Step("generator", "write", "write"), Step("critic", "judge", "judge")
IMPROVE, SAVE = Step("refiner", "improve", "improve"), Step("publisher", "save", "save")
PLAN = Plan("p", (WRITE, Repeat("Refinement", score >= 0.9, 3, (JUDGE, IMPROVE)), SAVE))
START = StartRun("r", PLAN, Brief("b"))
DRAFT = DraftRef(1, digest("one"))
JUDGED = Critiqued("r", "Refinement[1]/judge", 1, DRAFT, Critique(0.5))

numbers = count()
TASKS: dict[Coordinator, asyncio.Task[None]] = {}


async def ended(coordinator: Coordinator) -> BaseException | None:
    """Waits until it has ended by itself; gives what it ended with."""
    async with asyncio.timeout(60):
        await asyncio.wait([TASKS[coordinator]])
    return TASKS[coordinator].exception()


def bus_message(message: Message) -> BusMessage:
    name, body = encode_message(message)
    return BusMessage(name, body, Origin(f"message{next(numbers)}", "test", correlation=message.run), message.run)


@pytest.fixture(params=["sqlite", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventStore]:
    """On SQLite a commit takes its time, and the coordinator decides meanwhile; in memory it is done at once."""
    async with open_store(f"sqlite:///{tmp_path / 'log.db'}" if request.param == "sqlite" else "memory:") as opened:
        yield opened


@pytest.fixture(params=["sqlite", "memory", "postgresql"])
async def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventStore]:
    urls = {"sqlite": lambda: f"sqlite:///{tmp_path / 'log.db'}", "memory": lambda: "memory:"}
    url = urls.get(request.param, lambda: request.getfixturevalue("postgres_url"))()
    async with open_store(url) as opened:
        yield opened


@asynccontextmanager
async def coordinating(
    store: RunStore, *resent: tuple[str, str, int], known: ReadTallies | None = None
) -> AsyncIterator[tuple[LocalBus, Coordinator]]:
    """A coordinator as a new process would have it: it knows nothing of the log's runs yet."""
    async with LocalBus() as bus:

        async def resend(run: str, path: str, sent: int) -> None:
            sent_again.append((run, path, sent))

        sent_again: list[tuple[str, str, int]] = []
        coordinator = Coordinator(CommandHandler(store, lambda: datetime.now(UTC), resend, known=known), bus)
        task = TASKS[coordinator] = asyncio.create_task(coordinator.run())
        try:
            yield bus, coordinator
            assert sent_again == list(resent)
        finally:
            task.cancel()
            await asyncio.wait([task])


async def until_recorded(store: EventStore, kind: type, number: int = 1) -> None:
    async with asyncio.timeout(60):
        seen = 0
        async for batch in store.tail(0):
            seen += sum(isinstance(event.data, kind) for event in batch)
            if seen >= number:
                return


async def until_ignored(coordinator: Coordinator, number: int) -> None:
    """A message counts once it is settled, which may be a little after what came behind it is recorded."""
    deadline = asyncio.get_running_loop().time() + 60
    while coordinator.ignored != number:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.001)


async def begun(store: EventStore) -> None:
    async with coordinating(store) as (bus, _):
        await bus.publish(INBOX, [bus_message(START), bus_message(Generated("r", "write", 1, "one"))])
        await until_recorded(store, DraftGenerated)


async def test_an_outcome_that_is_decided_on_while_a_doubled_start_is_being_written_is_not_lost(store: EventStore):
    """The start is taken to be new until the log objects; what was decided meanwhile on that idea is decided again."""
    await begun(store)
    others = [bus_message(StartRun(f"other{number}", PLAN, Brief("b"))) for number in range(BATCH - 1)]
    async with coordinating(store) as (bus, _):
        await bus.publish(INBOX, [bus_message(START), *others, bus_message(JUDGED)])
        await until_recorded(store, DraftCritiqued)
    events = [event.data for event in await store.read("r")]
    assert len([event for event in events if isinstance(event, RunStarted)]) == 1
    assert len([event for event in events if isinstance(event, DraftCritiqued)]) == 1


@pytest.mark.parametrize("first", range(4))
async def test_a_doubled_start_before_or_behind_an_outcome_changes_nothing(store: EventStore, first: int):
    await begun(store)
    messages = [bus_message(JUDGED) for _ in range(3)]
    messages.insert(first, bus_message(START))
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
                await bus.publish(INBOX, [bus_message(each) for each in outcomes])
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
        await ours.publish(INBOX, [bus_message(START), bus_message(Generated("r", "write", 1, "one"))])
        await until_recorded(store, DraftGenerated)
        await others.publish(INBOX, [bus_message(JUDGED)])
        await until_recorded(store, DraftCritiqued)
        await ours.publish(INBOX, [bus_message(Refined("r", "Refinement[1]/improve", 1, "two"))])
        await until_recorded(store, DraftRefined)
    assert await store.verify("r") == len(await store.read("r"))


async def test_a_doubtful_request_is_sent_again_only_while_it_is_open(store: EventStore):
    await begun(store)
    async with coordinating(store, ("r", "Refinement[1]/judge", 3)) as (bus, coordinator):
        await bus.publish(
            INBOX,
            [
                bus_message(ConfirmStep("r", "write", 1, 2)),
                bus_message(ConfirmStep("r", "Refinement[1]/judge", 1, 2)),
                bus_message(JUDGED),
            ],
        )
        await until_recorded(store, DraftCritiqued)
        await bus.publish(INBOX, [bus_message(ConfirmStep("r", "Refinement[1]/judge", 1, 2)), bus_message(JUDGED)])
        await bus.publish(INBOX, [bus_message(StartRun("other", PLAN, Brief("b")))])
        await until_recorded(store, RunStarted, 2)
        await until_ignored(coordinator, 3)


async def test_a_request_that_no_worker_survives_fails_in_the_end(store: EventStore):
    await begun(store)
    async with coordinating(store) as (bus, _):
        await bus.publish(INBOX, [bus_message(ConfirmStep("r", "Refinement[1]/judge", 1, MAX_SENDINGS))])
        await until_recorded(store, StepFailed)
    failed = next(event.data for event in await store.read("r") if isinstance(event.data, StepFailed))
    assert (failed.kind, failed.attempt) == ("lost", 1)


@pytest.mark.parametrize("run", ["", "a\0b", "a\nb", "x" * 201])
async def test_a_message_for_what_cannot_be_a_run_is_dead_lettered_and_the_rest_goes_on(store: EventStore, run: str):
    async with coordinating(store) as (bus, _):
        name, body = encode_message(Generated(run, "write", 1, "text"))
        await bus.publish(INBOX, [BusMessage(name, body, Origin("strange", "test")), bus_message(START)])
        await until_recorded(store, RunStarted)
        (dead_letter,) = await dead_letters_on(bus)
        assert "cannot be the id of a run" in dead_letter.reason


async def dead_letters(bus: LocalBus, number: int) -> list[DeadLetter]:
    """What is dead-lettered, once it is so much."""
    async with asyncio.timeout(60):
        while len(found := await dead_letters_on(bus)) < number:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.001)
    return list(found)


@pytest.mark.check
async def test_what_cannot_be_read_and_what_is_for_no_run_is_dead_lettered_and_what_is_late_is_ignored(
    store: EventStore,
):
    await begun(store)
    async with coordinating(store) as (bus, coordinator):
        broken = BusMessage("outcome.generated.v1", b"{", Origin("x", "somebody"), "r")
        foreign = [bus_message(Generated("nobody", "write", 1, "text")), bus_message(CancelRun("nobody", "late"))]
        await bus.publish(
            INBOX, [broken, *foreign, bus_message(Generated("r", "write", 1, "late")), bus_message(JUDGED)]
        )
        await until_recorded(store, DraftCritiqued)
        first, *others = await dead_letters(bus, 3)
        assert first.bus_message.origin.id == "x"
        assert "cannot be read" in first.reason
        assert [each.bus_message for each in others] == foreign
        assert all(each.reason.endswith("there is no run nobody") for each in others)
        assert coordinator.ignored == 1
        assert await store.read("nobody") == ()


class Watched:
    """A store that tells what was found, each time that somebody has looked for a run."""

    def __init__(self, store: EventStore, looked: Callable[[Sequence[Recorded]], Awaitable[None]]) -> None:
        self._store = store
        self._looked = looked
        self.encode = store.encode
        self.require_sealing = store.require_sealing
        self.hand_in = store.hand_in
        self.raw = store.raw
        self.has_key = store.has_key

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]:
        found = await self._store.read(run, upto, after)
        await self._looked(found)
        return found


async def test_a_message_that_overtakes_the_start_of_its_run_is_not_dead_lettered(store: EventStore):
    """Another coordinator has taken the start and is about to record it when ours looks for the run."""
    looked = asyncio.Event()

    async def overtake(found: Sequence[Recorded]) -> None:
        if not found and not looked.is_set():
            looked.set()
            await begun(store)

    async with coordinating(Watched(store, overtake)) as (bus, _):
        await bus.publish(INBOX, [bus_message(CancelRun("r", "enough"))])
        await until_recorded(store, RunEnded)
        assert looked.is_set()
        assert await dead_letters_on(bus) == []


async def test_words_that_come_long_before_the_start_of_their_run_wait_for_it_in_their_order(store: EventStore):
    looks = 0
    often = asyncio.Event()

    async def count_look(found: Sequence[Recorded]) -> None:
        nonlocal looks
        looks += 1
        if looks >= 2 * TRIES:
            often.set()

    async with coordinating(Watched(store, count_look)) as (bus, _):
        await bus.publish(INBOX, [bus_message(PauseRun("r", by="ann")), bus_message(ResumeRun("r", by="ann"))])
        await bus.publish(INBOX, [bus_message(PauseRun("r", by="bob"))])
        async with asyncio.timeout(60):
            await often.wait()
        await bus.publish(INBOX, [bus_message(START), bus_message(CancelRun("r", "enough"))])
        await until_recorded(store, RunEnded)
        said = [type(event.data) for event in await store.read("r") if not isinstance(event.data, StepRequested)]
        assert said == [RunStarted, RunPaused, RunResumed, RunPaused, RunCancelled, RunEnded]
        assert await dead_letters_on(bus) == []


async def test_a_key_that_is_used_for_another_brief_is_dead_lettered_and_the_same_start_is_ignored(store: EventStore):
    await begun(store)
    async with coordinating(store) as (bus, _):
        other = bus_message(StartRun("r", PLAN, Brief("another"), "k"))
        await bus.publish(INBOX, [bus_message(START), other, bus_message(JUDGED)])
        await until_recorded(store, DraftCritiqued)
        (found,) = await dead_letters(bus, 1)
        assert found.bus_message == other
        assert found.reason.endswith("run r has begun with another brief or workflow, key 'k'; give another key")


async def test_a_plan_that_cannot_be_run_is_dead_lettered_with_the_fault(store: EventStore):
    async with coordinating(store) as (bus, _):
        broken = msgspec.structs.replace(PLAN, steps=(Parallel("none", ()),))
        await bus.publish(INBOX, [bus_message(StartRun("x", broken, Brief("b"))), bus_message(START)])
        await until_recorded(store, RunStarted)
        (found,) = await dead_letters(bus, 1)
        assert "none: " in found.reason
        assert await store.read("x") == ()


RUNS = [f"r{number}" for number in range(100)]


async def left(bus: LocalBus) -> set[str]:
    """The runs of what is in the inbox now."""
    end = bus_message(StartRun("the end", PLAN, Brief("b")))
    await bus.publish(INBOX, [end])
    found: set[str] = set()
    async with asyncio.timeout(60), bus.consume(INBOX, 1000) as inbox:
        while "the end" not in found:
            found |= {each.bus_message.run for each in await inbox.take(1000)}
    return found - {"the end"}


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 21])
async def test_draining_records_and_acknowledges_what_was_taken_and_leaves_the_rest(store: EventStore, turns: int):
    """Drained at any turn of the event loop, each message is either recorded or still there, never both or neither."""
    async with coordinating(store) as (bus, coordinator):
        await bus.publish(INBOX, [bus_message(StartRun(run, PLAN, Brief("b"))) for run in RUNS])
        for _ in range(turns):
            await asyncio.sleep(0)
        coordinator.drain()
        await ended(coordinator)
        there = await left(bus)
        recorded = {run for run in RUNS if await store.read(run)}
        assert recorded == set(RUNS) - there
        assert not recorded & there


async def test_draining_while_the_log_fails_gives_everything_back(store: EventStore):
    """The commit that is under way when it drains fails: those messages are in the inbox again, nothing is lost."""
    written = asyncio.Event()
    release = asyncio.Event()

    class Failing:
        async def _fail(self) -> Sequence[tuple[Recorded, ...] | Conflict]:
            written.set()
            await release.wait()
            raise StoreError("the disk is gone")

        async def require_sealing(self) -> bool:
            return False

        async def encode(self, append: Append, *, looked: bool = False) -> Encoded:
            return encode(append)

        def hand_in(self, appends: Sequence[Encoded]) -> PendingResults:
            return self._fail()

        async def raw(self, run: str) -> Sequence[tuple[int, str, bytes, int]]:
            return ()

        async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]:
            return ()

    async with coordinating(Failing()) as (bus, coordinator):
        await bus.publish(INBOX, [bus_message(StartRun(run, PLAN, Brief("b"))) for run in RUNS])
        await written.wait()
        coordinator.drain()
        release.set()
        assert "the disk is gone" in repr(await ended(coordinator))
        assert await left(bus) == set(RUNS)


async def test_one_that_was_drained_serves_no_more(store: EventStore):
    async with coordinating(store) as (_, coordinator):
        coordinator.drain()
        await ended(coordinator)
        async with asyncio.timeout(60):
            await coordinator.run()


FORK = StartRun("fork", PLAN, Brief("b"), parent=Parent("r", 4))


async def forks(store: EventStore, *messages: Message, times: int = 1) -> None:
    """A coordinator gets these messages, several times over."""
    async with coordinating(store) as (bus, _):
        for _ in range(times):
            await bus.publish(INBOX, [bus_message(each) for each in messages])
        await until_recorded(store, RunStarted, 2)


async def test_a_fork_repeats_its_parents_events_in_a_chain_of_its_own(anywhere: EventStore):
    await begun(anywhere)
    await forks(anywhere, FORK)
    parent, fork = await anywhere.read("r"), await anywhere.read("fork")
    assert isinstance(fork[0].data, RunStarted)
    assert fork[0].data.parent == Parent("r", 4)
    assert [event.data for event in fork[1:4]] == [event.data for event in parent[1:4]]
    assert [event.repeats for event in fork] == ["", *(event.id for event in parent[1:4]), *[""] * (len(fork) - 4)]
    assert [event.actor for event in fork[1:4]] == [event.actor for event in parent[1:4]]
    assert {event.causation for event in fork[1:]} == {fork[0].id}
    assert not {event.id for event in fork} & {event.id for event in parent}
    assert await anywhere.verify("fork") == len(fork)


@pytest.mark.parametrize("doubled", ["together", "apart", "in another process"])
async def test_a_doubled_fork_is_one_run(anywhere: EventStore, doubled: str):
    await begun(anywhere)
    times = 3 if doubled == "together" else 1
    await forks(anywhere, *[FORK] * times, times=2 if doubled == "apart" else 1)
    events = await anywhere.read("fork")
    async with coordinating(anywhere) as (bus, _):
        await bus.publish(
            INBOX, [bus_message(FORK), bus_message(Critiqued("fork", "Refinement[1]/judge", 1, DRAFT, Critique(1)))]
        )
        await until_recorded(anywhere, LoopEnded)
    assert (await anywhere.read("fork"))[: len(events)] == events
    assert await anywhere.verify("fork") > len(events)


async def test_a_fork_that_was_delivered_and_not_acknowledged_is_one_run(anywhere: EventStore):
    """As after a kill between the commit and the acknowledgement: the same message comes again, its count raised."""
    await begun(anywhere)
    again = bus_message(FORK)
    async with LocalBus() as bus:
        await bus.publish(INBOX, [again])
        async with bus.consume(INBOX, 1) as reader:
            await reader.take(1)
        for _ in range(2):
            coordinator = Coordinator(CommandHandler(anywhere, lambda: datetime.now(UTC), _never), bus)
            task = asyncio.create_task(coordinator.run())
            await until_recorded(anywhere, RunStarted, 2)
            task.cancel()
            await asyncio.wait([task])
            await bus.publish(INBOX, [again])
    assert await anywhere.verify("fork") == len(await anywhere.read("fork"))


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (replace(FORK, parent=Parent("nobody", 1)), "there is no event 1 of run nobody to fork at"),
        (replace(FORK, parent=Parent("r", 99)), "there is no event 99 of run r"),
        (replace(FORK, parent=Parent("r", 0)), "version"),
        (replace(FORK, parent=Parent("a\0b", 1)), "cannot be the id of a run"),
        (replace(FORK, plan=Plan("p", (WRITE, JUDGE, SAVE))), "its plan has other steps than run r; change only "),
    ],
)
async def test_a_fork_that_cannot_begin_is_dead_lettered_and_the_rest_goes_on(
    anywhere: EventStore, start: StartRun, said: str
):
    await begun(anywhere)
    async with coordinating(anywhere) as (bus, _):
        await bus.publish(INBOX, [bus_message(start), bus_message(StartRun("other", PLAN, Brief("b")))])
        await until_recorded(anywhere, RunStarted, 2)
        (dead_letter,) = await dead_letters_on(bus)
        assert said in dead_letter.reason
    assert await anywhere.read("fork") == ()


async def _never(run: str, path: str, sent: int) -> None:
    raise AssertionError(f"{path} of {run} was in doubt")


CHOICE = Step("critic", "", "judge", choose=(Arm("a", "a"), Arm("b", "b")))
CHOOSING = replace(PLAN, steps=(WRITE, Repeat("Refinement", score >= 0.9, 3, (CHOICE, IMPROVE)), SAVE))


class Memory:
    """What is known of arms, and how often it was asked for."""

    def __init__(self, **tallies: int) -> None:
        self.asked: list[str] = []
        self._known = {"Refinement/judge": tuple(Tally(arm, successes) for arm, successes in tallies.items())}

    async def __call__(self, workflow: str) -> Tallies:
        self.asked.append(workflow)
        return self._known


async def chosen_in(store: EventStore) -> list[StepRequested]:
    return [
        event.data for event in await store.read("r") if isinstance(event.data, StepRequested) and event.data.choice
    ]


async def test_what_is_known_of_arms_is_asked_for_only_where_there_is_a_choice_to_make(store: EventStore):
    plain, choosing = Memory(), Memory(a=0, b=1000)
    async with coordinating(store, known=plain) as (bus, _):
        await bus.publish(INBOX, [bus_message(replace(START, run="plain"))])
        await until_recorded(store, StepRequested)
    async with coordinating(store, known=choosing) as (bus, _):
        await bus.publish(
            INBOX, [bus_message(replace(START, plan=CHOOSING)), bus_message(Generated("r", "write", 1, "one"))]
        )
        await until_recorded(store, StepRequested, 3)
    assert (plain.asked, choosing.asked) == ([], ["p"])
    (asked,) = await chosen_in(store)
    assert asked.choice == thompson("r", await choosing("p"), "Refinement[1]/judge", "Refinement/judge", ("a", "b"))
    assert asked.actor == "b"


async def test_another_coordinator_keeps_what_was_chosen_whatever_it_knows(store: EventStore):
    async with coordinating(store, known=Memory(a=1000)) as (bus, _):
        await bus.publish(
            INBOX, [bus_message(replace(START, plan=CHOOSING)), bus_message(Generated("r", "write", 1, "one"))]
        )
        await until_recorded(store, StepRequested, 2)
    async with coordinating(store, known=Memory(b=1000)) as (bus, _):
        await bus.publish(INBOX, [bus_message(Generated("r", "write", 1, "one")), bus_message(JUDGED)])
        await until_recorded(store, DraftCritiqued)
        await bus.publish(INBOX, [bus_message(Refined("r", "Refinement[1]/improve", 1, "two"))])
        await until_recorded(store, StepRequested, 4)
    assert [(each.path, each.actor) for each in await chosen_in(store)] == [
        ("Refinement[1]/judge", "a"),
        ("Refinement[2]/judge", "b"),
    ]


async def test_without_anything_known_every_arm_has_the_same_chance(store: EventStore):
    starts = [bus_message(replace(START, run=f"r{n}", plan=replace(CHOOSING, steps=(_writers(),)))) for n in range(40)]
    async with coordinating(store) as (bus, _):
        await bus.publish(INBOX, starts)
        await until_recorded(store, StepRequested, 40)
    drawn = [
        e.data.actor async for batch in store.tail(0, follow=False) for e in batch if isinstance(e.data, StepRequested)
    ]
    assert 8 <= drawn.count("a") <= 32


def _writers() -> Step:
    return Step("generator", "", "write", choose=CHOICE.choose)
