"""`redraft` as users start it: in a process that has imported nothing yet. `forked` has those that begin at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.forked import Forked

Process = TypeVar("Process", bound=subprocess.Popen[bytes] | Forked)


class Said(NamedTuple):
    """What a call ended with, and what it wrote."""

    code: int
    out: str
    err: str


def plain(**settings: str) -> dict[str, str]:
    """This process's environment with these settings of Redraft alone; a warning is an error."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REDRAFT_")}
    return kept | {"PYTHONWARNINGS": "error"} | settings


def started(*arguments: str, folder: Path, environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """A process at work in this folder; what it says on standard error is added to the log."""
    with log.open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "redraft", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )


def called(*arguments: str, folder: Path, environment: Mapping[str, str], within: float = 60.0, **options: Any) -> Said:
    """A command, waited for; `options` are those of `subprocess.run`. Raises TimeoutExpired."""
    command = [sys.executable, "-m", "redraft", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=within, check=False, **options
    )
    return Said(done.returncode, done.stdout, done.stderr)


def stop(processes: Sequence[Process], within: float = 30.0) -> list[Process]:
    """Tells all of them to end; returns those that did not within so many seconds, and were killed."""
    for process in processes:
        process.terminate()
    return [process for process in processes if not _ends(process, within)]


def _ends(process: subprocess.Popen[bytes] | Forked, within: float) -> bool:
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


def lines_of(file: Path) -> list[str]:
    """The lines of a file; none as long as it is not there."""
    return file.read_text().splitlines() if file.exists() else []


def logged(log: Path) -> list[dict[str, Any]]:
    """The lines of a log that were written to their end: each is JSON."""
    return [json.loads(line) for line in lines_of(log) if line.endswith("}")]
