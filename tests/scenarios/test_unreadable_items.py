"""A run of an item that cannot be read, and records that follow no plan: they harm nothing but themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.app.cli_calls import call, document, one_line, said, spawn, start, until
from tests.scenarios.test_unreadable import FLOW, later, put_event

from redraft.events.messages.codec import GENESIS
from redraft.events.messages.domain_events import ItemOf
from redraft.events.messages.item_ids import run_of_item

BOOK = """
import asyncio
from pathlib import Path
from redraft.actors import Workflow, critic, generator, score, state, step

@step(writes=["chapters"])
async def outline(brief):
    return {"chapters": ["a", "b"]}

@generator
async def write(context, brief):
    while context.state.item == "a" and not Path("go").exists():
        await asyncio.sleep(0.02)
    return context.state.item

@critic
async def judge(draft):
    return 1.0

@generator
async def bind(context):
    return "all"

body = [write, judge]
book = Workflow("book").then(outline).for_each(state.chapters, name="Chapters", concurrency=2, body=body)
book = book.then(bind, judge)
"""

LOOP = f"""{FLOW}
from redraft.actors import refiner

@refiner
def improve(draft):
    return draft.text + "!"

loop = Workflow("loop").start_with(write).repeat_until(score >= 0.9, max_iterations=2, body=[judge, improve])
"""
NOBODYS = {"version": 99, "sha256": "a" * 64}


@pytest.fixture(autouse=True)
def folder(home: Path) -> Path:
    (home / "book.py").write_text(BOOK)
    return home


def events_of(run: str) -> list[dict[str, object]]:
    spoken = call("events", "--run", run, "--json")
    return [json.loads(line) for line in spoken.out.splitlines()] if spoken.code == 0 else []


def first_of(workflow: str) -> dict[str, Any]:
    """The data of the first event of a run of this workflow."""
    run = json.loads(said("run", workflow, "Tides", "--json"))["run"]
    return events_of(run)[0]["data"]  # type: ignore[return-value]


@pytest.fixture
def interrupted(folder: Path) -> tuple[str, str]:
    """A run that was killed while its first item was worked on and the second had ended, and the first item's run."""
    with start("run", "book.py:book", "Tides", "--key", "k", "-q", folder=folder) as process:
        found: list[str] = []

        def is_amid() -> bool:
            spoken = call("list", "--items", "--json")
            lines = json.loads(spoken.out) if spoken.code == 0 else []
            ended = [line for line in lines if "~2-" in line["run"] and line["status"] == "ended"]
            found[:] = [line["run"] for line in lines if "~1-" in line["run"]]
            return bool(ended and found and len(events_of(found[0])) == 2)

        until(is_amid)
        process.kill()
        process.wait()
    return found[0].partition("~")[0], found[0]


def test_when_an_item_that_cannot_be_read_is_set_aside_the_run_around_it_fails(
    interrupted: tuple[str, str], folder: Path
) -> None:
    run, item = interrupted
    later(item, "later.event.v9", {"z": 1})
    assert item in said("show", run)
    assert call("quarantine", item, "--reason", "of a later release").code == 0
    ended = spawn("run", "--resume", run, "-q", folder=folder)
    assert ended.code == 1
    assert f"run {item} was set aside: of a later release" in ended.err
    assert item in said("show", run)


@pytest.fixture
def begun(folder: Path) -> dict[str, Any]:
    """The data of the first event of a good run of one loop."""
    (folder / "loop.py").write_text(LOOP)
    return first_of("loop.py:loop")


def test_a_record_that_follows_no_plan_is_left_out_when_policies_are_compared(begun: dict[str, Any]) -> None:
    before = document("whatif", "--workflow", "loop", "--until", "score >= 0.3")
    put_event("zz", 1, GENESIS, "run.started.v1", begun)
    ended = {"path": "No[1]/x", "outcome": "accepted", "reason": "", "iterations": 1, "draft": NOBODYS}
    later("zz", "loop.ended.v1", ended)
    later("zz", "run.ended.v1", {"outcome": "accepted", "reason": "", "iterations": 1})
    after = document("whatif", "--workflow", "loop", "--until", "score >= 0.3")
    assert after["rows"] == before["rows"]
    (left,) = after["left_out"]
    assert left["runs"] == 1
    assert "the record does not follow its plan" in left["why"]


def test_an_event_that_is_no_number_is_refused_in_a_line(begun: dict[str, Any]) -> None:
    refused = call("show", "last", "--at=--5")
    assert refused.code == 2
    assert one_line(refused).startswith("--at '--5' is neither the number of an event nor a time")


def test_a_run_that_is_said_to_be_within_itself_is_shown(folder: Path) -> None:
    (folder / "go").touch()
    begun = first_of("book.py:book") | {"parent": {"run": "nobodys", "version": 2}}
    run = run_of_item(ItemOf("nobodys", "Chapters[1]"))
    put_event(run, 1, GENESIS, "run.started.v1", begun)
    asked = {"path": "Chapters[1]", "role": "run", "actor": "Chapters", "attempt": 1, "due": "2030-01-01T00:00:00Z"}
    later(run, "step.requested.v1", asked, repeats="x-2")
    assert "Chapters" in said("show", run)


@pytest.mark.parametrize(("parent", "told"), [("zz", "is said to be a fork of itself"), ("last", "follow its plan")])
def test_a_request_that_repeats_none_is_refused_in_a_line(parent: str, told: str, begun: dict[str, Any]) -> None:
    if parent == "last":
        parent = json.loads(said("list", "--json"))[0]["run"]
    put_event("zz", 1, GENESIS, "run.started.v1", begun | {"parent": {"run": parent, "version": 99}})
    asked = {"path": "write", "role": "generator", "actor": "write", "attempt": 1, "due": "2030-01-01T00:00:00Z"}
    for _ in range(12):
        later("zz", "run.guided.v1", {"advice": "la", "by": "x"})
    later("zz", "step.requested.v1", asked, repeats="x-2")
    refused = call("show", "zz", "--step", "write")
    assert refused.code in (1, 2)
    assert told in one_line(refused)
