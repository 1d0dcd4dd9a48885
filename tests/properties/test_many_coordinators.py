"""Two to four coordinators decide on one log: whatever overlaps, what is recorded is one history.

Each has a store of its own on one SQLite file, or on one PostgreSQL schema. Hypothesis draws who hears what, how often
and in which order, and when a commit is made, its result told, a read answered. A few hundred examples are part of the
suite; this makes 10,000 on SQLite and 1,000 on PostgreSQL:

    REDRAFT_SQLITE_EXAMPLES=10000 REDRAFT_POSTGRESQL_EXAMPLES=1000 \\
        pytest tests/properties/test_many_coordinators.py -k one_history
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from tests.actors.held import Clockwork, Held, quiet
from tests.dead_letters import dead_letters_on

from redraft.actors.runtime.coordinating.command_handler import CommandHandler
from redraft.actors.runtime.coordinating.coordinator import Coordinator
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, BusMessage
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import (
    ApproveDraft,
    CancelRun,
    ChangeLimits,
    Critiqued,
    EditDraft,
    ExpireStep,
    Failed,
    Generated,
    GuideRun,
    Message,
    PauseRun,
    Published,
    Refined,
    RejectDraft,
    ResumeRun,
    RetryStep,
    StartRun,
)
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Brief, Critique, DraftRef, Receipt
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    DraftEdited,
    DraftGenerated,
    DraftRefined,
    Parent,
    RunQuarantined,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.plan import Approve, Parallel, Plan, Repeat, Retry, Role, Step
from redraft.projections.record_check import check_events

T = TypeVar("T")
Log = dict[str, list[Recorded]]

EXAMPLES: Final = {"sqlite": 200, "postgresql": 40}
"""How many examples are tried."""

ASKED: Final = {
    kind: os.environ[name] for kind in EXAMPLES if (name := f"REDRAFT_{kind.upper()}_EXAMPLES") in os.environ
}
"""How many examples somebody asked for: however long they take."""

STEPS: Final = 50
MOST: Final = 4
NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCORES: Final = (0.3, 0.6, 0.95)

numbers = count()


def step(role: Role, name: str) -> Step:
    return Step(role, name, name, retry=Retry(2, 0.0))


WRITE, IMPROVE, SAVE = step("generator", "write"), step("refiner", "improve"), step("publisher", "save")
CRITICS = tuple(step("critic", name) for name in ("facts", "prose", "taste", "tone"))
ALL = Parallel("Panel", CRITICS, combine="mean")
SOME = Parallel("Panel", CRITICS, wait=2, combine="mean")
PLANS: Final = {
    "all": Plan("all", (WRITE, Repeat("Loop", score >= 0.9, 3, (ALL, IMPROVE)), SAVE)),
    "some": Plan("some", (WRITE, Repeat("Loop", score >= 0.9, 3, (SOME, IMPROVE)), SAVE)),
    "people": Plan("people", (WRITE, Repeat("Loop", score >= 0.5, 2, (ALL, IMPROVE)), Approve("Editor"), SAVE)),
}


class World:
    """The stores of one log, opened once for all examples: each example has runs of its own."""

    def __init__(self, url: str) -> None:
        self.loop = Clockwork()
        self.held = self.run(self._opened(url))

    async def _opened(self, url: str) -> list[Held]:
        self.reader = Held(url).store
        return [Held(url) for _ in range(MOST)]

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    async def _closed(self) -> None:
        for each in (self.reader, *(held.store for held in self.held)):
            await each.close()

    def close(self) -> None:
        self.run(self._closed())
        self.loop.close()


class Machine(RuleBasedStateMachine):
    world: World

    def __init__(self) -> None:
        super().__init__()
        self.bus_messages: list[BusMessage] = []
        self.runs: list[str] = []
        self.log: Log = {}
        self.now = NOON
        self.mark = next(numbers)

    @initialize(
        number=st.integers(2, MOST),
        shared=st.booleans(),
        holds_reads=st.booleans(),
        group=st.sampled_from([1, 2, 3, 512]),
        plan=st.sampled_from(sorted(PLANS)),
    )
    def begin(self, number: int, shared: bool, holds_reads: bool, group: int, plan: str) -> None:
        self.plan = PLANS[plan]
        self.held = self.world.held[:number]
        self.buses = [LocalBus()] * number if shared else [LocalBus() for _ in range(number)]
        self.grouping = patch("redraft.events.store.group_commit.GROUP_EVENTS", group)
        self.grouping.start()
        self.position = self.world.run(self.world.reader.head())
        self.coordinators = [self._coordinator(number) for number in range(number)]
        self.failed: list[BaseException] = []
        self.start(0)
        self.all_settle()
        self.send(0, Generated(self.runs[0], "write", 1, "first"))
        self.all_settle()
        for held in self.held:
            held.holds_reads = holds_reads

    def _coordinator(self, number: int) -> asyncio.Task[None]:
        async def resend(run: str, path: str, sent: int) -> None:
            """Scripted answers need no second request."""

        async def made() -> asyncio.Task[None]:
            coordinator = Coordinator(CommandHandler(self.held[number], lambda: self.now, resend), self.buses[number])
            return asyncio.create_task(coordinator.run())

        return self.world.run(made())

    def start(self, number: int) -> None:
        run = f"{self.mark}.r{len(self.runs)}"
        self.runs.append(run)
        self.send(number, StartRun(run, self.plan, Brief("b")))

    def send(self, number: int, message: Message) -> None:
        name, body = encode_message(message)
        bus_message = BusMessage(name, body, Origin(f"m{next(numbers)}", "test", correlation=message.run), message.run)
        self.bus_messages.append(bus_message)
        self.put(number, bus_message)

    def put(self, number: int, bus_message: BusMessage) -> None:
        self.world.run(self._put(number, bus_message))

    async def _put(self, number: int, bus_message: BusMessage) -> None:
        await self.buses[number].publish(INBOX, [bus_message])
        await quiet(self.held)

    def settle(self) -> None:
        self.world.run(quiet(self.held))

    def all_settle(self) -> None:
        """Lets go of everything, and of what comes of it, until nothing waits."""
        self.settle()
        while any(self.let_go_of(held) for held in self.held) or self.moves_on():
            pass
        self.look()

    def let_go_of(self, held: Held) -> bool:
        waited = held.let_all_go()
        self.settle()
        return waited

    def moves_on(self) -> bool:
        """Time passes until the next of those who wait by the clock goes on; False when nobody does."""
        waited = self.world.loop.move_on()
        self.settle()
        return waited

    def look(self) -> None:
        """Reads what was recorded since."""

        async def read() -> None:
            async for batch in self.world.reader.tail(self.position, follow=False):
                for event in batch:
                    self.log.setdefault(event.run, []).append(event)
                self.position = batch[-1].position

        self.world.run(read())

    def recorded(self, kind: type[T]) -> list[tuple[str, T]]:
        found = []
        for run, events in self.log.items():
            found += [(run, event.data) for event in events if isinstance(event.data, kind)]
        return found

    def who(self, data: st.DataObject) -> int:
        return data.draw(st.integers(0, len(self.held) - 1), "who")

    def drawn(self, data: st.DataObject, kind: type[T]) -> tuple[str, T] | None:
        """One of the events of this kind, the latest first."""
        found = self.recorded(kind)
        return found[-1 - data.draw(st.integers(0, len(found) - 1), kind.__name__)] if found else None

    @rule(data=st.data())
    def begins(self, data: st.DataObject) -> None:
        if len(self.runs) < 3:
            self.start(self.who(data))

    @rule(data=st.data(), value=st.sampled_from(SCORES), times=st.integers(1, 2))
    def answers(self, data: st.DataObject, value: float, times: int) -> None:
        """An actor answers; each answer is another one, also to the same request."""
        if (asked := self.drawn(data, StepRequested)) is not None:
            for _ in range(times):
                self.send(self.who(data), answer(*asked, value))

    @rule(data=st.data(), value=st.sampled_from(SCORES))
    def a_panel_answers(self, data: st.DataObject, value: float) -> None:
        """All that is asked for of one draft is answered, each to a coordinator of its own."""
        if (asked := self.drawn(data, StepRequested)) is not None:
            run, first = asked
            for other, request in self.recorded(StepRequested):
                if other == run and request.role == first.role and request.draft == first.draft:
                    self.send(self.who(data), answer(run, request, value))

    @rule(data=st.data(), value=st.sampled_from(SCORES))
    def goes_on(self, data: st.DataObject, value: float) -> None:
        """Whatever was asked for last is answered once, and nothing overlaps: so runs come to their ends."""
        number, run = self.who(data), data.draw(st.sampled_from(self.runs))
        asked = [event.data for event in self.log.get(run, ()) if isinstance(event.data, StepRequested)]
        for request in asked[-len(CRITICS) :]:
            self.send(number, answer(run, request, value))
        self.all_settle()

    @rule(data=st.data())
    def fails(self, data: st.DataObject) -> None:
        if (asked := self.drawn(data, StepRequested)) is not None:
            run, request = asked
            self.send(self.who(data), Failed(run, request.path, request.attempt, "error", "no"))
            self.send(self.who(data), RetryStep(run, request.path, request.attempt))

    @rule(data=st.data())
    def is_overdue(self, data: st.DataObject) -> None:
        if (asked := self.drawn(data, StepRequested)) is not None:
            run, request = asked
            self.now = max(self.now, request.due + timedelta(seconds=1))
            self.send(self.who(data), ExpireStep(run, request.path, request.attempt))

    @rule(data=st.data(), word=st.sampled_from(["guide", "guide", "limits", "pause", "resume", "resume", "cancel"]))
    def is_steered(self, data: st.DataObject, word: str) -> None:
        run = data.draw(st.sampled_from(self.runs))
        self.send(self.who(data), WORDS[word](run, key=f"k{next(numbers)}"))

    @rule(data=st.data(), word=st.sampled_from([ApproveDraft, RejectDraft, EditDraft]))
    def is_decided_on_by_people(self, data: st.DataObject, word: type[ApproveDraft | RejectDraft | EditDraft]) -> None:
        kind = data.draw(st.sampled_from([ApprovalRequested, DraftGenerated, DraftRefined, DraftEdited]))
        if (found := self.drawn(data, kind)) is not None:
            run, event = found
            draft = event.draft if isinstance(event, ApprovalRequested) else event.draft.ref
            self.send(self.who(data), of_people(word, run, draft))

    @rule(data=st.data())
    def is_forked(self, data: st.DataObject) -> None:
        if len(self.runs) < 3 and (found := self.drawn(data, RunStarted)) is not None:
            parent, begun = found
            version = data.draw(st.integers(1, len(self.log[parent])), "version")
            run = f"{self.mark}.r{len(self.runs)}"
            self.runs.append(run)
            self.send(self.who(data), StartRun(run, begun.plan, begun.brief, parent=Parent(parent, version)))

    @rule(data=st.data())
    def comes_again(self, data: st.DataObject) -> None:
        """The bus delivers at least once, in any order, to anybody."""
        self.put(
            self.who(data), self.bus_messages[-1 - data.draw(st.integers(0, len(self.bus_messages) - 1), "message")]
        )

    @rule(data=st.data(), most=st.integers(1, 3))
    def is_written(self, data: st.DataObject, most: int) -> None:
        if ready := [held for held in self.held if held.commits]:
            held = data.draw(st.sampled_from(ready), "who")
            for _ in range(most):
                if held.commits:
                    held.commit()
                    self.settle()
            self.look()

    @rule(data=st.data())
    def is_told(self, data: st.DataObject) -> None:
        self.let_go(data, [held.results for held in self.held if held.results])

    @rule(data=st.data())
    def is_read(self, data: st.DataObject) -> None:
        self.let_go(data, [held.reads for held in self.held if held.reads])

    def let_go(self, data: st.DataObject, lines: list[list[asyncio.Event]]) -> None:
        if lines:
            line = data.draw(st.sampled_from(lines), "who")
            line.pop(data.draw(st.integers(0, len(line) - 1), "which")).set()
            self.settle()

    @rule()
    def time_passes(self) -> None:
        self.moves_on()

    @rule()
    def catches_up(self) -> None:
        self.all_settle()

    @rule(data=st.data())
    def is_started_again(self, data: st.DataObject) -> None:
        """A process ends at whatever point it is, and another takes its place."""
        number = self.who(data)
        self.stop(self.coordinators[number])
        self.coordinators[number] = self._coordinator(number)
        self.settle()

    def stop(self, task: asyncio.Task[None]) -> None:
        async def stopped() -> None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        self.world.run(stopped())

    def teardown(self) -> None:
        if not hasattr(self, "coordinators"):
            return
        self.all_settle()
        ended = [task.exception() for task in self.coordinators if task.done() and not task.cancelled()]
        lost = [
            each.reason
            for bus in self.buses
            for each in self.world.run(dead_letters_on(bus))
            if "moved on" in each.reason
        ]
        for task in self.coordinators:
            if not task.done():
                self.stop(task)
        self.grouping.stop()
        for held in self.held:
            held.holds_reads = False
        self.require_whole()
        assert not ended, f"a coordinator ended: {ended}"
        assert not lost, f"a message was lost: {lost}"

    def require_whole(self) -> None:
        log = {run: sorted(events, key=lambda event: event.version) for run, events in self.log.items()}
        assert checked(log) == {}
        times = Counter(event.id for events in log.values() for event in events)
        assert times.total() == len(times), "an id is there twice"


def checked(log: Log) -> dict[str, list[str]]:
    """What is wrong with each run, by the checker of the product and by its positions, or that it was set aside."""
    found: dict[str, list[str]] = {}
    for run, events in log.items():
        told = [f"{each.version} {each.code}: {each}" for each in check_events(events)]
        told += [f"{b.version}: before version {a.version}" for a, b in pairwise(events) if a.position >= b.position]
        told += [event.data.reason for event in events if isinstance(event.data, RunQuarantined)]
        if told:
            found[run] = told
    return found


WORDS: Final[dict[str, Callable[..., Message]]] = {
    "guide": partial(GuideRun, advice="shorter", by="ann"),
    "limits": partial(ChangeLimits, max_iterations=4, by="ann"),
    "pause": partial(PauseRun, by="ann"),
    "resume": partial(ResumeRun, by="ann"),
    "cancel": partial(CancelRun, reason="enough", by="ann"),
}


def answer(run: str, asked: StepRequested, value: float) -> Message:
    path, attempt, text = asked.path, asked.attempt, f"text {next(numbers)}"
    draft = asked.draft or DraftRef(1, "")
    match asked.role:
        case "generator":
            return Generated(run, path, attempt, text)
        case "critic":
            return Critiqued(run, path, attempt, draft, Critique(value, suggestions=(text,)))
        case "refiner":
            return Refined(run, path, attempt, text)
        case "publisher":
            return Published(run, path, attempt, draft, Receipt(text))


def of_people(word: type[ApproveDraft | RejectDraft | EditDraft], run: str, draft: DraftRef) -> Message:
    key = f"k{next(numbers)}"
    if word is EditDraft:
        return EditDraft(run, draft, f"text {key}", "better", "ann", key)
    return word(run, draft, "so it is", "ann", key)  # type: ignore[arg-type]


@pytest.fixture(params=sorted(EXAMPLES))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:

    url = request.getfixturevalue("postgres_url") if request.param == "postgresql" else f"sqlite:///{tmp_path}/log.db"
    made = World(url)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.timeout(0 if ASKED else 600)  # what fails is made small, which takes its time
def test_what_many_coordinators_record_is_one_history(world: World, request: pytest.FixtureRequest):
    kind = request.node.callspec.params["world"]
    examples = int(ASKED.get(kind, EXAMPLES[kind]))
    machine = type("Coordinators", (Machine,), {"world": world})
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples, stateful_step_count=STEPS, suppress_health_check=list(HealthCheck)),
    )
