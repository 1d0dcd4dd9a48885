"""Calling the command line in this process, or as a process of its own, and what it said."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.forked import Forked, fork
from tests.processes import Said, called, plain

from redraft.app.cli import main


def call(*arguments: str, stdin: bytes = b"") -> Said:
    """The command line, called in this process."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2)]
    given = io.TextIOWrapper(io.BytesIO(stdin))
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]), patch.object(sys, "stdin", given):
        code = main(arguments)
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
    return Said(code, out, err)


def said(*arguments: str) -> str:
    """What a call wrote that is to do its work."""
    spoken = call(*arguments)
    assert spoken.code == 0, spoken.err
    return spoken.out


def document(*arguments: str) -> Any:
    """The one line of JSON that a call wrote, and nothing else."""
    spoken = call(*arguments, "--json")
    assert (spoken.code, spoken.err) == (0, "")
    assert spoken.out.count("\n") == 1
    return json.loads(spoken.out)


def shown_on(terminal: int) -> str:
    """All that is written to a terminal, our end of which this is, until nobody has its other end; closes it."""
    shown = bytearray()
    with suppress(OSError):  # Linux ends a terminal that nobody writes to any more with an error
        while chunk := os.read(terminal, 65536):
            shown += chunk
    os.close(terminal)
    return shown.decode()


def start(*arguments: str, folder: Path, **settings: str) -> Forked:
    """The command line as a process of its own, with pipes, working in `folder`; `settings` are its environment."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return fork("redraft", *arguments, folder=folder, environment=environment(folder, settings), **pipes)


def spawn(*arguments: str, folder: Path, stdin: str = "", **settings: str) -> Said:
    """The same, waited for."""
    with start(*arguments, folder=folder, **settings) as process:
        out, err = process.communicate(stdin, timeout=170)
        return Said(process.returncode, out, err)


def environment(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with a store in `folder` and these settings."""
    return plain(REDRAFT_STORE=f"sqlite:///{folder / 'store.db'}") | dict(settings)


def begin(*arguments: str, folder: Path, **settings: str) -> Said:
    """The same in a Python that has imported nothing yet, as users start it."""
    return called(*arguments, folder=folder, environment=environment(folder, settings))


def one_line(said: Said) -> str:
    """The one line on standard error of a call that was refused, without its beginning."""
    lines = said.err.splitlines()
    assert len(lines) == 1, said.err
    assert lines[0].startswith("redraft: ")
    return lines[0].removeprefix("redraft: ")


def until(condition: Callable[[], bool]) -> None:
    """Waits for what another process does and tells nobody of: looks again and again, for 30 s at most."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "not within 30 s"
        time.sleep(0.02)
