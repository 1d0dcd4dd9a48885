"""A run that cannot go on publishes its best draft, but none that a gate of its plan was still to see."""

from __future__ import annotations

from pathlib import Path

import pytest

from redraft.actors import Critique, Workflow, critic, generator, publisher, refiner, repeat, step
from redraft.app import read_settings, refine
from redraft.events.backends import open_store
from redraft.events.messages.plan import Node, Retry
from redraft.projections.record_check import check_events

PUBLISHED: list[str] = []


@generator
def write(brief):
    return "draft 0"


@critic
def judge(draft):
    return Critique(0.9 if draft.text.endswith("2") else 0.5)


@refiner
def improve(draft):
    return f"draft {int(draft.text[-1]) + 1}"


@refiner
def breaks(draft):
    raise RuntimeError("out of order")


@critic
def lint(draft):
    return Critique(1.0)


@critic
def lint_breaks(draft):
    raise RuntimeError("out of order")


@publisher
def save(draft):
    PUBLISHED.append(draft.text)
    return "somewhere"


ONCE = Retry(1)
GATE, BROKEN_GATE = step(lint, gate=True), step(lint_breaks, gate=True, retry=ONCE)
BREAKS = step(breaks, retry=ONCE)
INNER = repeat("Inner", until="score >= 0.9", max_iterations=3, body=[judge, improve])
BROKEN_INNER = repeat("Inner", until="score >= 0.9", max_iterations=3, body=[judge, BREAKS])
BROKEN_POLISH = repeat("Polish", until="score >= 0.9", max_iterations=3, body=[BROKEN_GATE, judge, improve])
POLISH = repeat("Polish", until="score >= 0.9", max_iterations=3, body=[GATE, judge, improve])


@pytest.mark.parametrize(
    ("nodes", "published"),
    [
        pytest.param([INNER, BROKEN_GATE], [], id="gate-behind-the-loop"),
        pytest.param([INNER, BREAKS, GATE], [], id="gate-still-to-come"),
        pytest.param([INNER, BREAKS, judge], ["draft 2"], id="critic-still-to-come"),
        pytest.param([INNER, GATE, BREAKS, judge], ["draft 2"], id="gate-passed"),
        pytest.param(
            [repeat("Outer", until="score >= 0.99", max_iterations=2, body=[INNER, BROKEN_GATE, improve])],
            [],
            id="gate-of-the-loop-around",
        ),
        pytest.param(
            [repeat("Outer", until="score >= 0.99", max_iterations=2, body=[GATE, judge, BREAKS])],
            ["draft 0"],
            id="own-gate-passed",
        ),
        pytest.param(
            [repeat("Outer", until="outputs >= 5", max_iterations=2, body=[INNER, BREAKS, POLISH])],
            [],
            id="gate-of-a-loop-beside-it",
        ),
        pytest.param(
            [repeat("Outer", until="score >= 0.99", max_iterations=2, body=[BROKEN_INNER, POLISH])],
            [],
            id="gate-of-a-loop-behind-the-one-in-progress",
        ),
        pytest.param(
            [repeat("Outer", until="score >= 0.99", max_iterations=2, body=[INNER, BROKEN_POLISH])],
            [],
            id="gate-of-a-loop-in-progress",
        ),
        pytest.param(
            [repeat("Outer", until="outputs >= 5", max_iterations=2, body=[POLISH, BREAKS])],
            ["draft 2"],
            id="gate-of-a-finished-loop",
        ),
        pytest.param(
            [
                repeat("Loop", until="score >= 0.99", max_iterations=2, body=[judge, BREAKS]),
                repeat("Later", until="score >= 0.99", max_iterations=2, body=[GATE, judge, improve]),
            ],
            [],
            id="gate-of-a-later-loop",
        ),
    ],
)
async def test_a_draft_that_a_gate_is_still_to_see_is_not_published(
    tmp_path: Path, nodes: list[Node], published: list[str]
):
    PUBLISHED.clear()
    workflow = Workflow("w").start_with(write)
    for node in nodes:
        workflow = workflow.then(node)
    workflow = workflow.finally_(save).on_failure("publish_best")
    settings = read_settings(store=f"sqlite:///{tmp_path}/runs.db")
    result = await refine(workflow, "brief", settings=settings)
    assert (result.outcome, PUBLISHED) == ("failed", published)
    async with open_store(settings.store) as store:
        assert check_events(await store.read(result.run)) == ()
