"""Free steps and conditions of one's own in a deployment: served by workers of their roles, seen, and missed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.app.deployments import Deployment, deployment
from tests.events.rabbit_server import URL, clear

from redraft.events.bus.port import work_queue
from redraft.events.messages.domain_events import DraftCritiqued, StateChanged

pytestmark = pytest.mark.check

ACTORS = """
from redraft.actors import WithState, Workflow, condition, generator, refiner, state, step

@step
def research(context):
    return {"sources": [f"{context.state.audience}.org"]}

@generator
def write(brief, context):
    return WithState(f"{brief.text}, by {context.state.sources[0]}", {"drafts": 1})

@step(writes=["words"], isolation="process")
def count(draft):
    return {"words": len(draft.text.split())}

@condition
def long_enough(facts):
    return facts.state.words >= 5 or f"{facts.state.words} words are too few"

@refiner
def improve(draft, critique, context):
    return WithState(f"{draft.text} more", {"drafts": context.state.drafts + 1, "why": critique.weaknesses[0]})

looped = (
    Workflow("looped", state={"audience": "adults"})
    .start_with(research, write)
    .repeat_until(long_enough, max_iterations=5, name="Loop", body=[count, long_enough, improve])
)
"""
QUEUES = tuple(work_queue("step", name) for name in ("research", "count"))
OTHERS = (work_queue("critic", "long_enough"), work_queue("generator", "write"), work_queue("refiner", "improve"))


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        (tmp_path / "steps.py").write_text(ACTORS)
        try:
            yield made
        finally:
            made.stop()
            asyncio.run(clear(URL, made.prefix, [*QUEUES, *OTHERS]))


def test_workers_of_their_roles_serve_free_steps_and_conditions(there: Deployment) -> None:
    there.start("coordinator", "coordinator")
    there.start("steps", "worker", "--role", "step", "steps.py")
    there.start("critics", "worker", "steps.py:long_enough")
    there.start("others", "worker", "steps.py:write", "steps.py:improve")
    for name in ("steps", "critics", "others"):
        there.serving(name)
    done = there.call("submit", "steps.py:looped", "Tides", "--set", "state.audience=children", "--wait", "--json")
    assert done.code == 0, (done.err, there.logs())
    found: dict[str, Any] = json.loads(done.out)
    assert found["outcome"] == "accepted"
    assert there.call("show", found["run"], "--text").out.strip() == "Tides, by children.org more more"
    events = [each.data for each in there.history(found["run"])]
    changed = [(each.path, each.state) for each in events if isinstance(each, StateChanged)]
    assert changed == [
        ("research", {"sources": ["children.org"]}),
        *((f"Loop[{number}]/count", {"words": number + 2}) for number in (1, 2, 3)),
    ]
    said = [each.critique for each in events if isinstance(each, DraftCritiqued)]
    assert [each.weaknesses for each in said] == [("3 words are too few",), ("4 words are too few",), ()]
    work = {(each["role"], each["actor"]): each["done"] for each in there.json("stats", "actors")}
    assert (work["step", "research"], work["step", "count"], work["critic", "long_enough"]) == (1, 3, 3)
    assert there.json("audit", found["run"], "--verify")["verified"]


def test_a_free_step_that_nobody_serves_is_named(there: Deployment) -> None:
    there.start("coordinator", "coordinator")
    there.start("others", "worker", "steps.py:write", "steps.py:improve", "steps.py:long_enough")
    there.serving("others")
    run = there.call("submit", "steps.py:looped", "Tides").out.strip()
    there.until("it waits", lambda: "research" in there.call("show", run).out)
    said = there.call("doctor")
    assert "step.research" in said.out + said.err, said


def test_a_role_that_a_file_does_not_have_is_told_in_one_line(there: Deployment) -> None:
    said = there.call("worker", "--role", "step", "loop.py")
    assert said.code == 2
    assert "no step is among the generator write" in said.err
