"""A run whose draft is above the limit of the process that goes on with it: its step fails, and no run waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.cli_calls import call, said, spawn, start, until

LOOP = """
import asyncio
from pathlib import Path
from redraft.actors import Retry, Workflow, critic, generator, refiner, score, step

HERE = Path(__file__).parent

@generator
def write(brief):
    return brief.text

@critic
async def judge(draft):
    (HERE / "at-judge").touch()
    await asyncio.Event().wait()

@refiner
def improve(draft):
    return draft.text + "!"

loop = Workflow("loop").start_with(write)
loop = loop.repeat_until(score >= 1, max_iterations=2, name="Loop", body=[step(judge, retry=Retry(1)), improve])
"""
LARGE = "tide" * 750
TOLD = "3,000 bytes, more than the limit of 2,000; shorten or split it, or raise REDRAFT_MAX_DRAFT_BYTES"


@pytest.fixture(autouse=True)
def folder(home: Path) -> Path:
    (home / "loop.py").write_text(LOOP)
    (home / "large.txt").write_text(LARGE)
    return home


def test_a_run_that_goes_on_with_a_lower_limit_fails_and_says_what_is_too_large(folder: Path) -> None:
    with start("run", "loop.py:loop", "large.txt", folder=folder, REDRAFT_MAX_DRAFT_BYTES="3000") as process:
        until((folder / "at-judge").exists)
        process.kill()
    again = spawn("run", "--resume", "last", folder=folder, REDRAFT_MAX_DRAFT_BYTES="2000")
    assert again.code == 1
    assert f": brief: {TOLD}" in again.err
    assert f": brief: {TOLD}" in said("show", "last")


def test_a_run_fails_when_a_person_puts_in_a_draft_above_the_limit_of_its_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start("run", "loop.py:loop", "Tides", folder=folder, REDRAFT_MAX_DRAFT_BYTES="2000") as process:
        until((folder / "at-judge").exists)
        monkeypatch.setenv("REDRAFT_MAX_DRAFT_BYTES", "3000")
        assert call("edit", "last", "large.txt").code == 0
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f": draft 2: {TOLD}" in err
