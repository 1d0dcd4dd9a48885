"""What the story of a failed simulation tells: the faults that it takes, in the same words each time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.app.testing.test_simulate import LETTER, all_mailed, failure, hasty

from redraft.actors import Draft, publisher
from redraft.app.testing import Odds, RealWork, simulate
from redraft.app.testing.faults import Faults
from redraft.app.testing.history import Setting
from redraft.app.testing.simulate import BRIEFS
from redraft.app.testing.stage import Stage


def test_a_fault_that_is_left_out_changes_no_other() -> None:
    odds = Odds(letter_lost=0.5)

    def struck(only: frozenset[tuple[str, int]] | None) -> list[tuple[str, int]]:
        faults = Faults(Random(1), odds, only=only, apart=True)
        for what in "abcabcabc":
            faults.happens(odds.letter_lost, what)
        return faults.struck

    whole = struck(None)
    assert 2 < len(whole) < 9
    assert struck(frozenset(whole) - {whole[1]}) == [whole[0], *whole[2:]]


@pytest.mark.parametrize(
    "seed", [19, pytest.param(25, marks=pytest.mark.check), pytest.param(35, marks=pytest.mark.check)]
)
def test_without_any_of_the_faults_that_are_told_it_goes_well(seed: int) -> None:
    stage = Stage(LETTER, hasty, all_mailed, BRIEFS)
    played = stage.play(seed, Setting(Odds()))
    told = stage.shorten(played)
    assert told.is_shortened
    assert " at 0x" not in told.wrong[0], "what pytest says of an assertion has addresses, which differ each time"
    assert 0 < len(told.history.struck) < len(played.history.struck) / 4
    for each in told.history.struck:
        fewer = frozenset(told.history.struck) - {each}
        assert not stage.play(seed, msgspec.structs.replace(told.setting, only=fewer)).is_like(told)


STORIES = """
from tests.app.testing.test_simulate import LETTER, careful
from redraft.app.testing import Odds
from redraft.app.testing.history import Setting
from redraft.app.testing.simulate import BRIEFS, story
from redraft.app.testing.stage import Stage
stage = Stage(LETTER, careful, lambda outside, events: False, BRIEFS)
for seed in range(12):
    print(story("message", stage.play(seed, Setting(Odds())), "replay"))
"""


@pytest.mark.check
def test_stories_are_the_same_with_each_hash_seed() -> None:
    told = set()
    for number in "0123":
        command = [sys.executable, "-c", STORIES]
        environment = {**os.environ, "PYTHONHASHSEED": number}
        ended = subprocess.run(
            command, cwd=Path(__file__).parents[3], env=environment, capture_output=True, text=True, check=True
        )
        told.add(ended.stdout)
    (story,) = told
    assert story.count("wrong: check: it returned False") == 12


@publisher(name="post")
async def post_and_stop(draft: Draft) -> str:
    asyncio.get_running_loop().stop()
    return "nowhere"


@publisher(name="post")
async def post_and_cancel(draft: Draft) -> str:
    for task in asyncio.all_tasks():
        task.cancel()
    return "nowhere"


def test_an_actor_that_stops_the_loop_is_named() -> None:
    with pytest.raises(RealWork, match="publisher post stops the event loop"):
        simulate(LETTER, [post_and_stop], seeds=1)


def test_an_actor_that_cancels_all_tasks_ends_its_own_process_alone() -> None:
    found = failure(LETTER, [post_and_cancel], seeds=1)
    assert "worker 1 ended by itself" in found.wrong
    assert str(found).splitlines()[0].endswith("seeds=[0])")
