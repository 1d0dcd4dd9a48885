"""A score that is exactly the one asked for is enough, whatever binary numbers make of a mean or a share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from redraft.actors import Actor, Workflow, critic, generator, parallel, refiner
from redraft.app import Settings, open_readonly, refine
from redraft.projections.record_check.check import check_events


@generator
def write() -> str:
    return "text"


@refiner
def improve(draft) -> str:
    return draft.text + "!"


def says(name: str, score: Any, **declared: Any) -> Actor:
    def judge(draft):
        return score

    judge.__name__ = name
    return critic(**declared)(judge)


def thrice(name: str) -> Actor:
    return says(name, 0.7)


SEVENS = (thrice("x"), thrice("y"), thrice("z"))
LOOPS: Mapping[str, tuple[str, list[Any]]] = {
    "mean": ("score >= 0.7", [parallel("Panel", *SEVENS, combine="mean")]),
    "veto": ("score >= 0.7", [parallel("Panel", *SEVENS, combine="veto")]),
    "weights": (
        "score >= 0.8",
        [parallel("Panel", says("x", 0.9), says("y", 0.6), combine="weights", weights=[2, 1])],
    ),
    "criteria": (
        "score >= 0.7",
        [says("x", {"a": 0.7, "b": 0.7, "c": 0.7}, criteria={"a": "it is", "b": "so is it", "c": "and so"})],
    ),
    "criterion of a panel": (
        "a >= 0.7",
        [
            parallel(
                "Panel",
                *(says(name, {"a": 0.7}, criteria={"a": "it is right"}) for name in ("x", "y", "z")),
                combine="mean",
            )
        ],
    ),
    "scales that differ": (
        "score >= 0.8",
        [says("x", 8.2, scale=(1, 10)), says("y", 90, scale=(0, 100))],
    ),
}


@pytest.mark.parametrize("what", LOOPS)
async def test_a_condition_that_is_exactly_met_holds_and_the_record_agrees(tmp_path: Path, what: str) -> None:
    until, critics = LOOPS[what]
    workflow = Workflow("exact").start_with(write).repeat_until(until, max_iterations=1, body=[*critics, improve])
    settings = Settings(store=f"sqlite:///{tmp_path / 'log.db'}")
    result = await refine(workflow, "Tides", settings=settings)
    assert (result.outcome, result.iterations) == ("accepted", 1), result.reason
    async with open_readonly(settings) as runtime:
        assert not check_events(await runtime.client.history(result.run))
