"""A workflow whose runs have runs for their items, at two depths, and those runs by what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.app.cli_calls import call, document

BOOK = """
import asyncio
from pathlib import Path
from redraft.actors import Workflow, each, generator
from redraft.events.messages.usage import Usage

HERE = Path(__file__).parent

@generator
async def write(brief, context):
    item = context.state.item
    (HERE / f"at-{item}").touch()
    while (HERE / f"hold-{item}").exists():
        await asyncio.sleep(0.01)
    context.used(Usage(tokens=10, cost=0.5, calls=1))
    return f"{brief.text} on {item}"

@generator
def sum_up(brief, context):
    context.used(Usage(tokens=5, cost=0.25, calls=1))
    return f"{brief.text}, all of it"

sections = each("Sections", over="state.item.sections", body=[write])
chapters = each("Chapters", over="state.chapters", body=[sections])
book = Workflow("book", state={"chapters": [{"sections": ["ebb", "flood"]}, {"sections": ["moon"]}]})
book = book.start_with(sum_up).then(chapters)
"""


def write_book(folder: Path) -> None:
    """Puts the module of the workflow into a folder."""
    (folder / "book.py").write_text(BOOK)


def run_book(*options: str) -> str:
    """Runs it to its end; returns the id of the run."""
    spoken = call("run", "book.py:book", "Tides", "--json", "--quiet", *options)
    assert spoken.code == 0, spoken.err
    return str(json.loads(spoken.out)["run"])


def all_runs() -> dict[str, dict[str, Any]]:
    """Every run of the store by its id, those of items too."""
    return {each["run"]: each for each in document("list", "--items", "--limit", "100")}


def items_of(run: str) -> list[str]:
    """The runs of the items of a run, at any depth."""
    return [each for each in all_runs() if each.startswith(f"{run}~")]
