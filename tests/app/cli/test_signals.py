"""The second signal ends a process, whatever code of the user's own hangs in it."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from tests.app.cli_calls import environment, said, until
from tests.forked import fork

HANGS = """
import time
from pathlib import Path

from redraft.app import Workflow, critic, step
from redraft.projections import Projection, Table

def hang():
    Path("at").touch()
    time.sleep(10**6)

@critic
async def judge(draft):
    hang()

async def take(event):
    hang()

def changes(event):
    hang()
    return ()

w = Workflow("w").start_with(step("source", role="generator")).then(judge)
own = Projection("own", 1, (Table("own", {"run": "TEXT NOT NULL"}),), changes)
"""

INTERRUPTED = """
def hang():
    import signal
    Path("at").touch()
    main = signal.getsignal(signal.SIGINT).keywords["main_task"]
    while not main.cancelling():
        time.sleep(0.01)
    Path("cancelled").touch()
    time.sleep(10**6)
"""
"""What hangs tells when asyncio has taken the first SIGINT: it cancels the main task."""


@pytest.mark.parametrize(
    "verb",
    [
        ("run", "hangs.py:w", "--text", "a text"),
        ("subscribe", "hangs.py:take", "--name", "n", "--timeout", "1"),
        ("projections", "follow", "hangs.py:own"),
    ],
    ids=lambda verb: verb[0],
)
def test_the_second_signal_ends_a_process_in_which_code_hangs(home: Path, verb: tuple[str, ...]) -> None:
    (home / "hangs.py").write_text(HANGS)
    said("run", "prose", "Tides come in.", "--quiet")
    files = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    quicker = {"redraft.app.cli.shared.signals.LATEST": 20}
    with fork("redraft", *verb, folder=home, environment=environment(home, {}), quicker=quicker, **files) as process:
        try:
            until((home / "at").exists)
            for number in (signal.SIGTERM, signal.SIGINT):
                process.send_signal(number)
            assert process.wait(60) in (128 + signal.SIGTERM, 128 + signal.SIGINT)
        finally:
            process.kill()


@pytest.mark.parametrize("verb", [("rebuild", "hangs.py:own"), ("projections", "show", "hangs.py:own")], ids=" ".join)
def test_the_second_interrupt_ends_a_command_in_which_a_projection_hangs(home: Path, verb: tuple[str, ...]) -> None:
    (home / "hangs.py").write_text(HANGS + INTERRUPTED)
    said("run", "prose", "Tides come in.", "--quiet")
    quicker = {"redraft.app.cli.shared.signals.LATEST": 20}
    files = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with fork("redraft", *verb, folder=home, environment=environment(home, {}), quicker=quicker, **files) as process:
        try:
            until((home / "at").exists)
            process.send_signal(signal.SIGINT)
            until((home / "cancelled").exists)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 128 + signal.SIGINT
        finally:
            process.kill()
