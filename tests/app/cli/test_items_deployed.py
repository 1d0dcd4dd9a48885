"""A book whose five chapters are refined side by side on RabbitMQ and PostgreSQL, through kills of each process."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.deployments import deployment

from redraft.events.bus.port import work_queue
from redraft.events.messages.domain_events import DraftGenerated, ItemOf, RunEnded, RunStarted
from redraft.events.messages.item_ids import run_of_item

pytestmark = pytest.mark.check

BOOK = """
import asyncio
from redraft.actors import Critique, Workflow, critic, generator, refiner, repeat, score, step

@step(writes=["chapters"])
async def outline(brief):
    return {"chapters": ["tides", "winds", "stars", "ships", "coasts"]}

@generator
async def open_chapter(context):
    return f"{context.state.index} {context.state.item}"

@critic
async def longer(draft):
    await asyncio.sleep(0.2)
    return Critique(min(1.0, len(draft.text.split()) / 6))

@refiner
async def add(draft):
    await asyncio.sleep(0.2)
    return f"{draft.text} more"

@generator
async def bind(context):
    return ". ".join(draft.text for draft in context.outputs)

chapter = repeat("Refinement", until=score >= 1, max_iterations=6, body=[longer, add])
book = (
    Workflow("book").then(outline)
    .for_each("state.chapters", name="Chapters", concurrency=5, body=[open_chapter, chapter]).then(bind)
)
"""
TITLES = ("tides", "winds", "stars", "ships", "coasts")
ACTORS = (
    ("step", "outline"),
    ("generator", "open_chapter"),
    ("critic", "longer"),
    ("refiner", "add"),
    ("generator", "bind"),
)


def test_a_book_is_refined_at_once_and_ends_once_whoever_is_killed(tmp_path: Path, postgres_url: str) -> None:
    with deployment(tmp_path, postgres_url) as there:
        there.queues_made += [work_queue(*actor) for actor in ACTORS]
        (tmp_path / "book.py").write_text(BOOK)
        started = {
            name: there.start(name, *("coordinator",) if "coordinator" in name else ("worker", "book.py"))
            for name in ("coordinator-1", "coordinator-2", "worker-1", "worker-2")
        }
        for name in started:
            there.serving(name)
        said = there.call("submit", "book.py:book", "why the sea moves")
        assert said.code == 0, said.err
        run = said.out.strip()
        chapters = [run_of_item(ItemOf(run, f"Chapters[{number + 1}]")) for number in range(5)]
        there.until("all chapters are under way", lambda: len(there.json("list", "--of", run)) == 5)
        for name, process in started.items():
            process.kill()
            process.wait()
            there.start(name, *("coordinator",) if "coordinator" in name else ("worker", "book.py"))
            there.serving(name, 2)
        there.ended(run)
        ended = there.history(run)[-1].data
        assert isinstance(ended, RunEnded)
        assert ended.outcome == "accepted"
        texts = [event.data.draft.text for event in there.history(run) if isinstance(event.data, DraftGenerated)]
        wanted = [f"{number} {name} more more more more" for number, name in enumerate(TITLES, 1)]
        assert texts[-1] == ". ".join(wanted)
        assert sorted(texts[:-1]) == sorted(wanted)
        for chapter in chapters:
            history = [event.data for event in there.history(chapter)]
            assert [sum(isinstance(event, kind) for event in history) for kind in (RunStarted, RunEnded)] == [1, 1]
        audit = there.call("audit", "--all", "--verify")
        assert (audit.code, audit.err) == (0, ""), audit.out
