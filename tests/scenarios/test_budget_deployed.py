"""A budget that ends in a deployment: the best draft is published all the same, and calls under way are stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.deployments import Deployment, deployment

pytestmark = pytest.mark.check

FRUGAL = """
import asyncio
from pathlib import Path
from redraft.actors import Critique, Workflow, critic, generator, publisher, refiner, score
from redraft.events.messages.usage import Usage

HERE = Path(__file__).parent

@generator
def write(brief, context):
    context.used(Usage(calls=1))
    return brief.text

@critic
async def judge(draft, context):
    context.used(Usage(calls=1))
    try:
        while (HERE / "hold-judge").exists():
            (HERE / "judging").touch()
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        (HERE / "stopped").touch()
        raise
    return Critique(0.5)

@refiner
def improve(draft, context):
    context.used(Usage(calls=1))
    return draft.text + " more"

@publisher
async def save(draft):
    (HERE / "publishing").touch()
    while (HERE / "hold-save").exists():
        await asyncio.sleep(0.01)
    return "here"

plan = Workflow("frugal").start_with(write)
plan = plan.repeat_until(score >= 0.9, max_iterations=50, name="Loop", body=[judge, improve]).finally_(save)
calls = plan.budget(calls=5).on_failure("publish_best")
seconds = plan.budget(seconds=2)
"""


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        (tmp_path / "frugal.py").write_text(FRUGAL)
        made.start("coordinator", "coordinator")
        made.serving("coordinator")
        made.start("worker", "worker", "frugal.py")
        made.serving("worker")
        yield made


def submit(there: Deployment, plan: str) -> str:
    said = there.call("submit", f"frugal.py:{plan}", "a text")
    assert said.code == 0, said.err
    return said.out.strip()


def test_what_is_published_when_a_budget_ends_is_not_stopped_by_that(there: Deployment) -> None:
    (there.folder / "hold-save").touch()
    run = submit(there, "calls")
    there.until("it publishes", lambda: (there.folder / "publishing").exists())
    (there.folder / "hold-judge").touch()
    other = submit(there, "calls")
    there.until("another run is judged", lambda: (there.folder / "judging").exists())
    assert there.call("cancel", other).code == 0
    there.until("its call is stopped", lambda: (there.folder / "stopped").exists())
    (there.folder / "hold-save").unlink()
    there.ended(run)
    assert "published" in there.call("show", run).out


def test_calls_under_way_are_stopped_when_the_wall_time_is_over(there: Deployment) -> None:
    (there.folder / "hold-judge").touch()
    run = submit(there, "seconds")
    there.ended(run)
    there.until("its call is stopped", lambda: (there.folder / "stopped").exists())
    assert "over budget" in there.call("show", run).out
