"""A loop whose critics stand in a loop inside it keeps the best draft; a plateau compares scores as decimals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from redraft.actors import Draft, Workflow, critic, generator, plateau, publisher, refiner, repeat, score
from redraft.app import Result, Settings, read_settings, refine
from redraft.events.backends import open_store
from redraft.projections.record_check import check_events


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings(store=f"sqlite:///{tmp_path}/runs.db")


def flow(scores: tuple[float, ...], keep: str = "best", until: object = score >= 1) -> Workflow:
    """Each iteration of the outer loop writes a draft anew, which leaves the inner loop with the next score."""
    numbers: Iterator[int] = iter(range(1, 100))

    @generator
    async def write() -> str:
        return f"draft {next(numbers)}"

    @critic
    async def judge(draft: Draft) -> float:
        return scores[int(draft.text.split()[1]) - 1]

    @refiner
    async def improve(draft: Draft) -> str:
        return draft.text

    @publisher
    async def save(draft: Draft) -> str:
        return "somewhere"

    inner = repeat("Inner", until=score >= 0.05, max_iterations=2, body=[judge, improve])
    outer = repeat("Outer", until=until, max_iterations=len(scores), keep=keep, body=[write, inner])
    return Workflow("w").then(outer).finally_(save)


async def refined(workflow: Workflow, settings: Settings) -> Result:
    result = await refine(workflow, "brief", settings=settings)
    async with open_store(settings.store) as store:
        assert check_events(await store.read(result.run)) == ()
    return result


@pytest.mark.parametrize(
    ("scores", "keep", "published"),
    [
        ((0.9, 0.5, 0.3), "best", "draft 1"),
        ((0.5, 0.9, 0.3), "best", "draft 2"),
        ((0.5, 0.9, 0.9), "best", "draft 3"),
        ((0.9, 0.5, 0.3), "last", "draft 3"),
    ],
)
async def test_the_best_draft_of_the_inner_loops_leaves(
    settings: Settings, scores: tuple[float, ...], keep: str, published: str
):
    result = await refined(flow(scores, keep), settings)
    assert (result.outcome, result.text) == ("exhausted", published)


@pytest.mark.parametrize("scores", [(0.1, 0.3), (0.4, 0.6), (0.5, 0.7), (0.2, 0.4), (0.7, 0.9)])
async def test_a_rise_by_as_much_as_a_plateau_asks_for_is_none(settings: Settings, scores: tuple[float, ...]):
    """Some of these differences are less than 0.2 in binary, and others more."""
    result = await refined(flow(scores, until=(score >= 1) | plateau(gain=0.2, over=1)), settings)
    assert result.outcome == "exhausted"


async def test_a_loop_around_others_reaches_a_plateau(settings: Settings):
    result = await refined(flow((0.5, 0.55, 0.9), until=(score >= 1) | plateau(gain=0.1, over=1)), settings)
    assert (result.outcome, result.text) == ("plateaued", "draft 2")
