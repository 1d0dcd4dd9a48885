"""A request that has more beside its draft than RabbitMQ takes in a message: its worker fetches it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq

from redraft.app import (
    FOLDER,
    Context,
    Draft,
    Settings,
    Workflow,
    critic,
    generator,
    open_client,
    print_folder,
    publisher,
    run_coordinator,
    run_worker,
    score,
)
from redraft.events.bus.port import LARGEST_BODY, work_queue

DEADLINE = 120
SIZE = 3_900_000
CHAPTERS = 5


@generator
def write(brief, context: Context) -> Draft:
    number = context.path[0]
    return Draft(1, print_folder({f"{number}.txt": number * SIZE, "small": "x"}), "", FOLDER)


@critic
def judge(draft) -> float:
    return 1.0


@generator
def bind(brief, context: Context) -> Draft:
    sizes = {each.text.count(path[0]) for each in context.outputs for path in each.files if path[0].isdigit()}
    return Draft(1, f"{len(context.outputs)} chapters of {min(sizes):,} to {max(sizes):,}", "")


@publisher
def save(draft, context: Context) -> str:
    return f"{sum(len(each.text) for each in context.outputs)}"


def book() -> Workflow:
    workflow = Workflow("book")
    for number in range(1, CHAPTERS + 1):
        workflow = workflow.repeat_until(score >= 1, max_iterations=1, body=[write, judge], name=f"{number}")
    return workflow.then(bind, judge).finally_(save)


@pytest.mark.check
async def test_a_book_whose_chapters_do_not_fit_into_a_message_is_bound(tmp_path: Path) -> None:
    assert CHAPTERS * SIZE > LARGEST_BODY
    require_rabbitmq()
    settings = Settings(
        store=f"sqlite:///{tmp_path / 'log.db'}",
        bus=URL,
        broker_prefix=new_prefix(),
        max_draft_bytes=4 * 1024 * 1024,
    )
    drain, served, worked = asyncio.Event(), asyncio.Event(), asyncio.Event()
    loop = book()
    try:
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            group.create_task(run_coordinator(settings=settings, drain=drain, ready=served.set))
            group.create_task(run_worker(loop, settings=settings, drain=drain, ready=worked.set))
            await served.wait()
            await worked.wait()
            async with open_client(settings) as client:
                result = await client.wait(await client.submit(loop, "Tides"))
            drain.set()
    finally:
        await clear(URL, settings.broker_prefix, [work_queue(each.role, each.name) for each in loop.actors.values()])
    assert result.outcome == "accepted", result.reason
    assert result.text == f"{CHAPTERS} chapters of {SIZE + 1:,} to {SIZE + 1:,}"
    assert int(result.publications[0].location) > LARGEST_BODY
