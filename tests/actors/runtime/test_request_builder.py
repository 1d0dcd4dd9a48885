"""Requests of long runs name the same texts as those of short ones, and what is kept for them does not grow."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from redraft.actors import (
    Actor,
    Critique,
    Draft,
    History,
    Receipt,
    Workflow,
    critic,
    generator,
    parallel,
    publisher,
    refiner,
    step,
)
from redraft.actors.runtime.relaying.request_builder import RequestBuilder
from redraft.actors.workflow.builders import StepSpec
from redraft.app import open_local, read_settings
from redraft.events.messages.commands import Refine
from redraft.events.messages.content import Round
from redraft.events.messages.domain_events import DraftGenerated, DraftRefined, RunStarted, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import RULES, Parallel

ITERATIONS = 40


async def long_run(rollback: float = 1.0) -> tuple[tuple[Recorded, ...], list[str]]:
    """The events of a run whose first draft is the best, and the drafts that its refiner and its publisher got."""
    got: list[str] = []

    @generator
    async def write() -> str:
        return "draft 1 " * 1000

    @critic
    async def judge(draft: Draft) -> Critique:
        return Critique(0.8 if draft.version == 1 else 0.5)

    @refiner
    async def improve(draft: Draft, history: object) -> str:
        got.append(draft.text)
        return f"draft {len(got) + 1} " * 1000

    @publisher
    async def save(draft: Draft) -> Receipt:
        got.append(draft.text)
        return Receipt("nowhere")

    plan = Workflow("long").start_with(write)
    body = [judge, improve]
    plan = plan.repeat_until(
        "score >= 0.9", max_iterations=ITERATIONS, name="Loop", body=body, rollback_margin=rollback
    )
    async with open_local(read_settings(store="memory:"), [write, judge, improve, save]) as runtime:
        run = await runtime.client.submit(plan.finally_(save), "brief")
        await runtime.client.wait(run)
        return await runtime.client.history(run), got


async def test_the_first_draft_is_published_after_many_worse_ones() -> None:
    _, got = await long_run()
    assert got[:-1] == [f"draft {number} " * 1000 for number in range(1, ITERATIONS + 1)]
    assert got[-1] == "draft 1 " * 1000


async def test_a_refiner_gets_the_best_draft_again_however_old_it_is() -> None:
    _, got = await long_run(rollback=0.1)
    assert got == ["draft 1 " * 1000] * (ITERATIONS + 1)


async def test_what_is_kept_of_a_run_does_not_grow_with_its_drafts() -> None:
    events, _ = await long_run()
    builder, sizes = RequestBuilder(), []
    for event in events:
        builder.add(event)
        builder.forget_drafts()
        sizes.append(builder.size)
    assert max(sizes) < 2 * sizes[len(events) // 4]
    last = [event.data for event in events if isinstance(event.data, StepRequested)][-1]
    assert last.role == "publisher"
    assert not builder.has_drafts(last)
    assert RequestBuilder(events).has_drafts(last)


async def test_a_history_has_the_texts_of_as_many_earlier_drafts_as_its_step_says_however_long_the_run() -> None:
    got: list[list[int]] = []

    @refiner
    async def longer(draft: Draft, history: History) -> str:
        got.append([each.version for each in history.drafts])
        return draft.text + "."

    plan = Workflow("long").start_with(write)
    body = [count, step(longer, history=20)]
    plan = plan.repeat_until("score >= 0.99", max_iterations=25, name="Loop", body=body, rollback_margin=1.0)
    async with open_local(read_settings(store="memory:"), [write, count, longer]) as runtime:
        result = await runtime.client.wait(await runtime.client.submit(plan, "brief"))
    assert result.outcome == "exhausted", result.reason
    assert got == [list(range(max(1, number - 19), number)) for number in range(1, 26)]


async def test_what_is_kept_of_large_drafts_is_bounded_and_the_latest_two_are_there() -> None:
    events, _ = await long_run()
    builder, sizes = RequestBuilder(), []
    for event in events:
        builder.add(_with_wide_draft(event))
        builder.forget_drafts()
        sizes.append(builder.size)
        if isinstance(event.data, StepRequested) and event.data.role in ("critic", "refiner"):
            assert builder.has_drafts(event.data)
    assert max(sizes) < 18_000_000


def _with_wide_draft(event: Recorded) -> Recorded:
    """The event with a draft of 1 MB, which takes 5 MB of memory, if it has one."""
    if not isinstance(event.data, DraftGenerated | DraftRefined):
        return event
    draft = replace(event.data.draft, text="\U0001f30a" + "x" * 1_000_000)
    return replace(event, data=replace(event.data, draft=draft))


async def rounds_of(
    *critics: StepSpec | Parallel, rules: int = RULES, more: tuple[Actor, ...] = ()
) -> tuple[list[Round], Critique]:
    """The rounds that the third request of a refiner has, and its critique, as one that begins under these rules."""
    body: list[Any] = [*critics, longer]
    plan = Workflow("judged").start_with(write)
    plan = plan.repeat_until("score >= 0.9", max_iterations=3, body=body)
    async with open_local(read_settings(store="memory:"), [write, longer, count, kind, strict, *more]) as runtime:
        run = await runtime.client.submit(plan, "brief")
        await runtime.client.wait(run)
        events = [_under(rules, each) for each in await runtime.client.history(run)]
    asked = [each.data for each in events if isinstance(each.data, StepRequested) and each.data.role == "refiner"]
    command = RequestBuilder(events).command(run, asked[2])
    assert isinstance(command, Refine)
    assert command.critique
    return [each for each in command.history.rounds if each.draft.version <= 3], command.critique


def _under(rules: int, event: Recorded) -> Recorded:
    return replace(event, data=replace(event.data, rules=rules)) if isinstance(event.data, RunStarted) else event


@generator
async def write(brief: object) -> str:
    return "a"


@refiner
async def longer(draft: Draft) -> str:
    return f"{draft.text} a"


@critic(measures=("words",))
async def count(draft: Draft) -> dict[str, object]:
    return {"measures": {"words": len(draft.text.split())}}


@critic
async def kind(draft: Draft) -> float:
    return 0.2 * draft.version


@critic
async def strict(draft: Draft) -> float:
    return 0.1


async def test_a_critic_that_only_counts_does_not_take_the_score_of_a_round() -> None:
    rounds, critique = await rounds_of(step(count), step(kind))
    assert [(each.score, each.gain, each.measures) for each in rounds] == [
        (0.2, None, {"words": 1}),
        (0.4, 0.2, {"words": 2}),
        (pytest.approx(0.6), 0.2, {"words": 3}),
    ]
    assert critique.score == pytest.approx(0.6)


async def test_a_round_that_nobody_scored_says_so() -> None:
    rounds, _ = await rounds_of(step(count))
    assert [(each.score, each.scored, each.gain) for each in rounds] == [(0.0, False, None)] * 3


async def test_the_score_of_a_round_is_what_its_critics_gave_together() -> None:
    panel = parallel("both", step(kind), step(strict), combine="mean")
    rounds, critique = await rounds_of(panel)
    assert [(each.score, each.gain) for each in rounds] == [
        (pytest.approx(0.15), None),
        (0.25, 0.1),
        (pytest.approx(0.35), 0.1),
    ]
    assert critique.score == pytest.approx(rounds[-1].score)


async def test_what_two_steps_of_one_actor_counted_has_the_names_of_the_steps() -> None:
    two = [step(count, name=name) for name in ("first", "second")]
    rounds, critique = await rounds_of(*two)
    assert rounds[0].measures == {"first.words": 1, "second.words": 1}
    assert critique.measures == {"first.words": 3, "second.words": 3}


async def test_a_run_of_earlier_rules_is_given_what_it_was_given_then() -> None:
    two = [step(count, name="first"), step(kind, name="second")]
    rounds, critique = await rounds_of(*two, rules=4)
    assert [(each.score, each.gain) for each in rounds] == [(0.0, None), (0.0, 0.0), (0.0, 0.0)]
    assert [each.measures for each in rounds] == [{"words": 1}, {"words": 2}, {"words": 3}]
    assert critique.score == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("settings", "accuracy"),
    [
        ({"combine": "mean"}, 6),
        ({"combine": "median"}, 6),
        ({"combine": "weights", "weights": [3, 1]}, 7.5),
        ({"combine": "min"}, 3),
        ({"combine": "veto"}, 6),
    ],
)
async def test_a_refiner_is_told_the_scores_by_criterion_that_conditions_read(
    settings: dict[str, Any], accuracy: float
) -> None:
    told: list[tuple[str, str, float, dict[str, float], str]] = []

    @critic(scale=(1, 10), criteria={"accuracy": "it is right"})
    async def mild(draft: Draft) -> dict[str, int]:
        return {"accuracy": 9}

    @critic(scale=(1, 10), criteria={"accuracy": "it is right"})
    async def severe(draft: Draft) -> dict[str, object]:
        return {"criteria": {"accuracy": {"score": 3, "reason": "a claim is wrong"}}}

    @refiner
    async def improve(draft: Draft, critique: Critique, history: History) -> str:
        round_, [mark] = history.rounds[-1], critique.criteria
        told.append((critique.shown_score, critique.shown_criteria, round_.score, round_.criteria, mark.reason))
        return f"{draft.text} a"

    plan = Workflow("judged").start_with(write)
    body: list[Any] = [parallel("both", mild, severe, **settings), improve]
    plan = plan.repeat_until(f"accuracy >= {accuracy + 1}", max_iterations=1, body=body)
    async with open_local(read_settings(store="memory:"), [write, mild, severe, improve]) as runtime:
        await runtime.client.wait(await runtime.client.submit(plan, "brief"))
    said = f"{accuracy:g} of 10"
    assert told == [(said, f"accuracy {said}", accuracy, {"accuracy": accuracy}, "a claim is wrong")]


async def test_a_run_of_earlier_rules_is_told_the_lowest_score_of_each_criterion() -> None:
    @critic(criteria={"tone": "it is kind"})
    async def mild(draft: Draft) -> dict[str, float]:
        return {"tone": 0.75}

    @critic(criteria={"tone": "it is kind"})
    async def severe(draft: Draft) -> dict[str, float]:
        return {"tone": 0.25}

    panel = parallel("both", step(mild), step(severe), combine="mean")
    for rules, tone in ((4, 0.25), (RULES, 0.5)):
        rounds, critique = await rounds_of(panel, rules=rules, more=(mild, severe))
        assert [(each.name, each.score) for each in critique.criteria] == [("tone", tone)]
        assert rounds[-1].criteria == {"tone": tone}


async def test_a_draft_that_was_given_up_has_the_scores_that_its_critics_gave_together() -> None:
    told: list[list[tuple[float, dict[str, float], float | None]]] = []

    @critic(scale=(0, 10), criteria={"accuracy": "it is right"})
    async def falling(draft: Draft) -> dict[str, int]:
        return {"accuracy": 9 if draft.version == 1 else 5}

    @critic(scale=(0, 10), criteria={"accuracy": "it is right"})
    async def severe(draft: Draft) -> dict[str, int]:
        return {"accuracy": 3}

    @refiner
    async def improve(draft: Draft, history: History) -> str:
        told.append([(each.score, each.criteria, each.gain) for each in history.rounds])
        return f"{draft.text} a"

    body: list[Any] = [parallel("both", falling, severe, combine="mean"), improve]
    plan = Workflow("judged").start_with(write).repeat_until("accuracy >= 9.5", max_iterations=2, body=body)
    async with open_local(read_settings(store="memory:"), [write, falling, severe, improve]) as runtime:
        await runtime.client.wait(await runtime.client.submit(plan, "brief"))
    assert told[-1] == [(6, {"accuracy": 6}, None), (4, {"accuracy": 4}, -2)]
