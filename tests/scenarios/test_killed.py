"""kill -9 at every boundary between events, then go on: the same final history as a run that nobody killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from tests.forked import fork

from redraft.app import open_readonly, read_settings
from redraft.events.messages.domain_events import DraftCritiqued, DraftRefined, RunStarted, StepRequested

SCRIPT = Path(__file__).parents[1] / "app" / "killed_run.py"
APPENDS = 10
"""How often the unkilled run appends: at its start and for each outcome, as `test_every_boundary_is_covered` checks."""


def start(folder: Path, when: str = "never", number: int = 0) -> int:
    command = (str(SCRIPT), str(folder), when, str(number))
    with fork(*command, folder=folder, environment=os.environ, stderr=subprocess.PIPE) as process:
        _, said = process.communicate(timeout=60)
        code = process.wait()
    assert code in (0, -signal.SIGKILL), said
    return code


async def story(folder: Path) -> list[tuple[str, object]]:
    """What happened, without the times, which differ from run to run; every hash verified."""
    async with open_readonly(read_settings(store=f"sqlite:///{folder / 'log.db'}")) as runtime:
        events = [event async for event in runtime.client.subscribe(follow=False)]
        assert await runtime.store.verify(events[0].run) == len(events)
    return [(event.name, timeless(event.data)) for event in events]


def timeless(event):
    match event:
        case RunStarted():
            return msgspec.structs.replace(event, at=None)
        case StepRequested():
            return msgspec.structs.replace(event, due=None)
        case _:
            return event


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unkilled")
    assert start(folder) == 0
    return folder


@pytest.mark.check
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, APPENDS + 1))
async def test_a_run_that_is_killed_at_an_append_ends_as_if_it_had_not_been(
    tmp_path: Path, unkilled: Path, when: str, number: int
):
    assert start(tmp_path, when, number) == -signal.SIGKILL
    assert start(tmp_path) == 0
    told = await story(tmp_path)
    assert told == await story(unkilled)
    paths = Counter(event.path for _, event in told if isinstance(event, DraftCritiqued | DraftRefined))
    assert set(paths.values()) == {1}
    assert (tmp_path / "published.txt").read_text() == (unkilled / "published.txt").read_text()


async def test_what_is_killed_is_given_to_several_who_were_chosen(unkilled: Path):
    """So that the tests here say that a choice stays the same, whenever a process is killed."""
    chosen = {event.actor for _, event in await story(unkilled) if isinstance(event, StepRequested) and event.choice}
    assert chosen == {"improve", "lengthen"}


async def test_every_boundary_is_covered(unkilled: Path, tmp_path: Path):
    """The last append that there is kills; one more is never reached."""
    assert start(tmp_path, "after", APPENDS) == -signal.SIGKILL
    other = tmp_path / "other"
    other.mkdir()
    assert start(other, "before", APPENDS + 1) == 0


async def test_a_run_that_is_killed_again_and_again_ends_all_the_same(tmp_path: Path, unkilled: Path):
    """Each start gets two appends further and is killed before its third."""
    starts = 1
    while start(tmp_path, "before", 3) != 0:
        starts += 1
        assert starts < 20
    assert starts > 3
    assert await story(tmp_path) == await story(unkilled)
