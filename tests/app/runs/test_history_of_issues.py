"""A history says of the draft that is worked on what was raised, fixed and came back, and nothing that nobody said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from redraft.actors import (
    Actor,
    Critique,
    Draft,
    History,
    Workflow,
    critic,
    generator,
    parallel,
    refiner,
    step,
)
from redraft.actors.runtime.relaying.request_builder import RequestBuilder
from redraft.app import open_local, read_settings
from redraft.events.messages.commands import Refine
from redraft.events.messages.domain_events import RunStarted, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import RULES

Told = tuple[int, tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def saying(name: str, *said: tuple[float, str]) -> Actor:
    """A critic that gives the nth draft the nth score, and names the words that stand there with it."""

    @critic(name=name)
    async def judge(draft: Draft) -> Critique:
        score, words = said[min(draft.version, len(said)) - 1]
        return Critique(score, suggestions=tuple(words.split()))

    return judge


@generator
async def write(brief: object) -> str:
    return "draft 1"


def telling(told: list[Told]) -> Actor:
    """A refiner that notes its draft, and what its history says was raised, fixed and came back."""
    made = [1]

    @refiner
    async def improve(draft: Draft, history: History) -> str:
        told.append((draft.version, history.raised, history.fixed, history.returned))
        made.append(draft.version)
        return f"draft {len(made)}"

    return improve


async def events_of(*body: Any, most: int, more: tuple[Actor, ...] = (), **settings: Any) -> list[Recorded]:
    plan = Workflow("told").start_with(write).repeat_until("score >= 0.95", max_iterations=most, body=body, **settings)
    async with open_local(read_settings(store="memory:"), [write, *more]) as runtime:
        run = await runtime.client.submit(plan, "brief")
        await runtime.client.wait(run)
        return list(await runtime.client.history(run))


async def test_what_a_critic_would_have_said_that_was_not_asked_is_unknown() -> None:
    told: list[Told] = []
    base = saying("base", (0.8, ""), (0.75, ""), (0.5, ""), (0.8, ""))
    late, improve = saying("late", (0.4, "rude")), telling(told)
    body = (base, step(late, when="score >= 0.7"), improve)
    await events_of(*body, most=4, more=(base, late, improve), rollback_margin=0.99)
    assert told == [(1, ("rude",), (), ()), (2, ("rude",), (), ()), (3, (), (), ()), (4, ("rude",), (), ())]


async def test_what_a_critic_was_asked_about_again_is_fixed_and_stays_so_while_it_is_not_asked() -> None:
    told: list[Told] = []
    base = saying("base", (0.8, "long"), (0.75, ""), (0.5, ""), (0.8, "long"))
    late, improve = saying("late", (0.4, "rude"), (0.4, ""), (0.4, ""), (0.4, "rude")), telling(told)
    body = (base, step(late, when="score >= 0.7"), improve)
    await events_of(*body, most=4, more=(base, late, improve), rollback_margin=0.99)
    assert told[1:] == [
        (2, (), ("long", "rude"), ()),
        (3, (), ("long", "rude"), ()),
        (4, ("long", "rude"), (), ("long", "rude")),
    ]


async def test_after_a_fall_it_is_told_of_the_draft_that_is_worked_on() -> None:
    told: list[Told] = []
    judge, improve = saying("judge", (0.8, "slip"), (0.3, "new"), (0.85, "slip"), (0.85, "")), telling(told)
    await events_of(judge, improve, most=4, more=(judge, improve))
    assert told == [(1, ("slip",), (), ()), (1, ("slip",), (), ()), (3, ("slip",), (), ()), (4, (), ("slip",), ())]


async def test_a_critic_behind_a_gate_that_failed_said_nothing() -> None:
    told: list[Told] = []
    lint = saying("lint", (1.0, ""), (0.0, "broken"), (1.0, ""))
    judge, improve = saying("judge", (0.4, "dull")), telling(told)
    await events_of(step(lint, gate=True), judge, improve, most=3, more=(lint, judge, improve), rollback_margin=0.99)
    assert told == [(1, ("dull",), (), ()), (1, ("dull",), (), ()), (3, ("dull",), (), ())]


async def test_a_critic_that_was_not_waited_for_said_nothing() -> None:
    told: list[Told] = []
    improve = telling(told)

    def answering(name: str, only: int, word: str) -> Actor:
        @critic(name=name)
        async def judge(draft: Draft) -> Critique:
            if draft.version not in (only, 3):
                await asyncio.Event().wait()
            return Critique(0.4, suggestions=(word,))

        return judge

    one, two = answering("one", 1, "dull"), answering("two", 2, "short")
    await events_of(parallel("Panel", one, two, wait=1), improve, most=2, more=(one, two, improve))
    assert told == [(1, ("dull",), (), ()), (2, ("short",), (), ())]


async def test_a_candidate_that_was_not_kept_has_fixed_nothing() -> None:
    told: list[Told] = []
    judge = saying("judge", (0.4, "slip"), (0.5, "slip"), (0.1, ""), (0.6, "slip"), (0.2, ""))

    @refiner
    async def longer(draft: Draft, history: History) -> str:
        told.append((draft.version, history.raised, history.fixed, history.returned))
        return f"{draft.text} and on"

    @refiner
    async def shorter(draft: Draft, history: History) -> str:
        return draft.text[:3]

    panel = parallel("Two", longer, shorter, judge=step(judge, name="pick"))
    await events_of(judge, panel, most=2, more=(judge, longer, shorter))
    assert [each[1:3] for each in told] == [(("slip",), ()), (("slip",), ())]


async def test_a_draft_that_is_written_anew_follows_the_one_before() -> None:
    told: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    judge = saying("judge", (0.4, "slip dull"), (0.4, "dull"), (0.4, ""))

    @generator
    async def rewrite(brief: object, history: History) -> str:
        told.append((history.raised, history.fixed))
        return f"draft {len(told)}"

    plan = Workflow("told").start_with(step(rewrite, name="first"))
    plan = plan.repeat_until("score >= 0.95", max_iterations=3, body=[judge, rewrite])
    async with open_local(read_settings(store="memory:"), [rewrite, judge]) as runtime:
        await runtime.client.wait(await runtime.client.submit(plan, "brief"))
    assert told == [((), ()), (("slip", "dull"), ()), (("dull",), ("slip",)), ((), ("slip", "dull"))]


@pytest.mark.parametrize(("rules", "fixed"), [(6, ("rude",)), (7, ())])
async def test_a_run_is_told_what_its_rules_say(rules: int, fixed: tuple[str, ...]) -> None:
    base = saying("base", (0.8, ""), (0.5, ""))
    late, improve = saying("late", (0.4, "rude")), telling([])
    body = (base, step(late, when="score >= 0.7"), improve)
    recorded = await events_of(*body, most=2, more=(base, late, improve), rollback_margin=0.99)
    assert RULES >= 7
    events = [
        replace(each, data=replace(each.data, rules=rules)) if isinstance(each.data, RunStarted) else each
        for each in recorded
    ]
    asked = [each.data for each in events if isinstance(each.data, StepRequested) and each.data.role == "refiner"]
    command = RequestBuilder(events).command(events[0].run, asked[1])
    assert isinstance(command, Refine)
    assert command.history.fixed == fixed
