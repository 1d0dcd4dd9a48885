"""Requests of long runs name the same texts as those of short ones, and what is kept for them does not grow."""

from __future__ import annotations

from redraft.actors import Critique, Draft, Receipt, Workflow, critic, generator, publisher, refiner
from redraft.actors.runtime.relaying.request_builder import RequestBuilder
from redraft.app import open_local, read_settings
from redraft.events.messages.domain_events import StepRequested
from redraft.events.messages.envelope import Recorded

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
