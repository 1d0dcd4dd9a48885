"""Recorded verdicts are looked up for critics that ask for them alone, and their absence or loss changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from functools import partial

import pytest
from msgspec.structs import replace

from redraft.actors.conditions.text import parse_condition
from redraft.actors.runtime.coordinating.command_handler import CommandHandler
from redraft.actors.runtime.coordinating.recalling import find_earlier
from redraft.events.backends import open_store
from redraft.events.messages.commands import Critiqued, Generated, Message, StartRun
from redraft.events.messages.content import Brief, Critique
from redraft.events.messages.domain_events import DraftCritiqued, EventRef, StepRequested
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.plan import Plan, Repeat, Reuse, Step
from redraft.events.store.event_store import EventStore


@pytest.fixture
async def store() -> AsyncIterator[EventStore]:
    async with open_store("memory:") as opened:
        yield opened


def plan_of(reuse: Reuse | None) -> Plan:
    loop = Repeat(
        "Loop",
        parse_condition("score >= 0.9"),
        2,
        (Step("critic", "judge", "judge", reuse=reuse), Step("refiner", "improve", "improve")),
    )
    return Plan("p", (Step("generator", "write", "write"), loop))


class Rows:
    """A read model that says this of every key, and which keys it was asked about."""

    def __init__(self, *refs: EventRef) -> None:
        self.asked: list[str] = []
        self.refs = refs

    async def __call__(self, key: str) -> Sequence[EventRef]:
        self.asked.append(key)
        return self.refs


async def nothing(run: str, path: str, sent: int) -> None:
    """No request is in doubt here."""


async def told(store: EventStore, rows: Rows, *messages: Message, by: str = "somebody") -> Sequence[Recorded]:
    """The events of the run of these messages, decided by a coordinator that looks verdicts up in these rows."""
    earlier = partial(find_earlier, store, rows)
    handler = CommandHandler(store, lambda: datetime.now(UTC), nothing, earlier=earlier)
    for message in messages:
        await handler.carry_out(message, Origin(f"{message.run}-{type(message).__name__}", by))
    return await store.read(messages[0].run)


def begun(run: str, reuse: Reuse | None, text: str = "one") -> tuple[Message, Message]:
    return StartRun(run, plan_of(reuse), Brief("b")), Generated(run, "write", 1, text)


async def judged(
    store: EventStore, run: str = "first", by: str = "critic judge", *, hermetic: bool = True, seen: int | None = None
) -> EventRef:
    """A run with one verdict, and where that is."""
    events = await told(store, Rows(), *begun(run, "always"))
    asked = next(e.data for e in events if isinstance(e.data, StepRequested) and e.data.role == "critic")
    assert asked.draft is not None
    critique = Critique(0.5, critic="judge")
    answer = Critiqued(
        run, asked.path, 1, asked.draft, critique, hermetic=hermetic, state={"seen": seen} if seen else {}
    )
    events = await told(store, Rows(), answer, by=by)
    return next(EventRef(run, e.version) for e in events if isinstance(e.data, DraftCritiqued))


@pytest.mark.parametrize(("reuse", "looked_up"), [(None, 0), ("run", 0), ("always", 1)])
async def test_only_a_critic_that_asks_for_it_costs_a_look_up(store: EventStore, reuse: Reuse | None, looked_up: int):
    rows = Rows()
    await told(store, rows, *begun("r", reuse))
    assert len(rows.asked) == looked_up


async def test_what_the_log_proves_is_taken(store: EventStore):
    source = await judged(store)
    events = await told(
        store, Rows(EventRef("gone", 3), replace(source, version=2), source), *begun("second", "always")
    )
    (taken,) = [each.data for each in events if isinstance(each.data, DraftCritiqued)]
    assert (taken.reused, taken.critique) == (source, Critique(0.5, critic="judge"))


async def test_rows_that_are_wrong_mean_that_the_critic_is_asked(store: EventStore):
    source = await judged(store)
    wrong = Rows(EventRef("gone", 3), replace(source, version=1), replace(source, version=99))
    for name, rows, text in (("second", wrong, "one"), ("third", Rows(source), "another text")):
        events = await told(store, rows, *begun(name, "always", text))
        last = events[-1].data
        assert isinstance(last, StepRequested)
        assert (last.role, last.reused) == ("critic", None)


async def test_a_verdict_of_changed_code_is_not_taken(store: EventStore):
    """A run that goes on after its critic was changed has answers that its plan, and so the key, does not name."""
    changed = Rows(await judged(store, by="critic judge@f5ba0e94fcde"))
    events = await told(store, changed, *begun("second", "always"))
    assert isinstance(events[-1].data, StepRequested)
    assert (changed.asked != [], events[-1].data.role, events[-1].data.reused) == (True, "critic", None)


async def test_a_verdict_on_more_than_was_given_is_not_taken_by_another_run(store: EventStore):
    asked = Rows(await judged(store, hermetic=False))
    events = await told(store, asked, *begun("second", "always"))
    assert isinstance(events[-1].data, StepRequested)
    assert (asked.asked != [], events[-1].data.role, events[-1].data.reused) == (True, "critic", None)


async def test_a_verdict_that_changed_its_runs_state_is_not_taken(store: EventStore):
    asked = Rows(await judged(store, seen=1))
    events = await told(store, asked, *begun("second", "always"))
    assert isinstance(events[-1].data, StepRequested)
    assert (asked.asked != [], events[-1].data.role, events[-1].data.reused) == (True, "critic", None)


async def test_two_that_decide_at_once_may_both_ask(store: EventStore):
    """Neither run's verdict is recorded when the other decides; a third one takes that of either."""
    one, two = begun("one", "always"), begun("two", "always")
    for messages in (one, two):
        events = await told(store, Rows(), *messages)
        assert isinstance(events[-1].data, StepRequested)
        assert events[-1].data.reused is None
    keys = {
        e.data.verdict_key for run in ("one", "two") for e in await store.read(run) if hasattr(e.data, "verdict_key")
    }
    assert len(keys - {""}) == 1
