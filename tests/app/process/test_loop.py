"""How our programs come to an end: in processes of their own, for a loop that is given up cannot be used again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

TASK = """
import asyncio
import signal
from redraft.app.process.lifecycle import run

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has jobs in the background ignore it

async def task(end):
    try:
        await asyncio.Event().wait()
    finally:
        {last}

async def main():
    begun = [asyncio.create_task(task(asyncio.Event())) for _ in range(2)]
    await asyncio.sleep(0)
    print("begun", flush=True)
    {then}
    return 42

try:
    print(run(main()))
except KeyboardInterrupt:
    print("interrupted")
"""
ENDS = "print('ended')"
NEVER_ENDS = "await asyncio.Event().wait()"


def started(tmp_path: Path, **parts: str) -> subprocess.Popen[str]:
    program = tmp_path / "program.py"
    program.write_text(TASK.format(**parts))
    return subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("last", "says"), [(ENDS, ["begun", "ended", "ended", "42"]), (NEVER_ENDS, ["begun", "42"])], ids=["end", "do not"]
)
def test_a_program_ends_whether_or_not_its_tasks_end(tmp_path: Path, last: str, says: list[str]) -> None:
    with started(tmp_path, last=last, then="pass") as process:
        out, _ = process.communicate(timeout=170)
    assert (process.returncode, out.split()) == (0, says)


def test_an_interrupt_cancels_all_and_is_raised(tmp_path: Path) -> None:
    with started(tmp_path, last=ENDS, then="await asyncio.Event().wait()") as process:
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=170)
    assert (process.returncode, out.split()) == (0, ["ended", "ended", "interrupted"])
