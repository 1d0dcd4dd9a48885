"""Runs of items in one process: they are taken on with the run around them, and none goes on once that has ended."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from redraft.actors import Context, Retry, Workflow, each, generator, step
from redraft.actors.runtime.coordinating import timekeeper
from redraft.app import refine
from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import open_local
from redraft.events.backends import open_store
from redraft.events.errors import StepError
from redraft.events.messages.domain_events import ItemOf, RunEnded, StepFailed
from redraft.events.messages.item_ids import run_of_item
from redraft.events.store.event_store import EventStore


@generator
async def write(context: Context) -> str:
    if context.state.item == "broken":
        raise RuntimeError("out of ink")
    await asyncio.Event().wait()
    return "never"


BOOK = Workflow("book", state={"chapters": ["slow", "broken"]}).for_each(
    "state.chapters", name="Chapters", body=[step(write, retry=Retry(1))]
)
DEEP = Workflow("book", state={"parts": [["slow"], ["broken"]]}).for_each(
    "state.parts", name="Parts", body=[each("Inner", over="state.item", body=[step(write, retry=Retry(1))])]
)


async def outcomes(store: EventStore, *runs: str) -> list[str]:
    events = [await store.read(run) for run in runs]
    return [each[-1].data.outcome if isinstance(each[-1].data, RunEnded) else "under way" for each in events]


async def test_when_a_program_ends_the_items_of_its_run_have_ended_too(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    result = await refine(BOOK, "Tides", settings=Settings(store=url))
    assert result.outcome == "failed"
    slow, broken = (run_of_item(ItemOf(result.run, f"Chapters[{number}]")) for number in (1, 2))
    async with open_store(url) as store:
        assert await outcomes(store, slow, broken) == ["cancelled", "failed"]


async def test_items_of_items_end_as_well(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    result = await refine(DEEP, "Tides", settings=Settings(store=url))
    assert result.outcome == "failed"
    first, second = (run_of_item(ItemOf(result.run, f"Parts[{number}]")) for number in (1, 2))
    inner = [run_of_item(ItemOf(run, "Inner[1]")) for run in (first, second)]
    async with open_store(url) as store:
        assert await outcomes(store, first, second, *inner) == ["cancelled", "failed", "cancelled", "failed"]


async def test_in_a_process_that_goes_on_items_end_with_the_run_around_them():
    async with open_local(Settings(store="memory:"), BOOK.actors.values()) as runtime:
        run = await runtime.client.submit(BOOK, "Tides")
        assert (await runtime.client.wait(run)).outcome == "failed"
        slow = run_of_item(ItemOf(run, "Chapters[1]"))

        async with asyncio.timeout(20):
            async for event in runtime.client.subscribe(0, run=slow):
                if isinstance(event.data, RunEnded):
                    assert event.data.outcome == "cancelled"
                    break


IS_OVERLOADED = asyncio.Event()


@generator
async def retell(context: Context) -> str:
    if IS_OVERLOADED.is_set():
        raise StepError("the model is overloaded")
    return "told"


AGAIN = step(retell, retry=Retry(attempts=5, initial=1.0, factor=1.0))
FLAT_TALE = Workflow("tale", state={"chapters": ["one"]}).for_each("state.chapters", name="Chapters", body=[AGAIN])
DEEP_TALE = Workflow("tale", state={"parts": [["one"]]}).for_each(
    "state.parts", name="Parts", body=[each("Inner", over="state.item", body=[AGAIN])]
)


@pytest.mark.parametrize("tale", [FLAT_TALE, DEEP_TALE], ids=["an item", "an item of an item"])
async def test_an_item_that_waited_for_its_retry_goes_on_when_its_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tale: Workflow
):
    """Nothing new is recorded of it by which the process could learn that it is there."""
    monkeypatch.setattr(timekeeper, "WATCH", timedelta(seconds=0.1))
    settings = Settings(store=f"sqlite:///{tmp_path / 'store.db'}")
    IS_OVERLOADED.set()
    async with asyncio.timeout(20), open_local(settings, tale.actors.values()) as runtime:
        run = await runtime.client.submit(tale, "Tides")
        async for event in runtime.client.subscribe(0):
            if isinstance(event.data, StepFailed):
                assert event.data.retry_at is not None
                break
    IS_OVERLOADED.clear()
    async with asyncio.timeout(20), open_local(settings, tale.actors.values(), resume=[run]) as runtime:
        result = await runtime.client.wait(run)
        assert (result.outcome, result.text) == ("accepted", "told")


async def test_a_run_that_is_set_aside_stops_its_calls_too(tmp_path: Path):
    began, stopped = asyncio.Event(), asyncio.Event()

    @generator
    async def hold(brief):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with asyncio.timeout(20), open_local(Settings(store=f"sqlite:///{tmp_path / 'log.db'}"), [hold]) as runtime:
        run = await runtime.client.submit(Workflow("held").start_with(hold), "Tides")
        await began.wait()
        await runtime.client.quarantine(run, "it is not to go on", by="ann")
        await stopped.wait()
