"""One program, run to its end, its deadline or its output limit, with nothing of it left behind.

The program gets a session, and so a process group, of its own. Whatever ends it, the whole group is killed: first with
SIGTERM, after a grace with SIGKILL. A thread of its own starts and reaps it, so that neither can hold up the event
loop; the group is killed before its leader is reaped, so that no signal can reach a stranger with the same number.
A process that moves to another session by itself is out of reach; it is not waited for either.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import Final

from redraft.app.builtin.output import Output
from redraft.events.errors import PermanentError, StepError

OUTPUT_LIMIT: Final = 1024 * 1024
"""How many bytes of output are kept unless a caller says otherwise."""
GRACE: Final = 2.0
"""Seconds that a program has to end by itself after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended. `code` is its exit code, or minus the number of the signal that ended it.

    `truncated`: it printed more than the limit, and was ended. `timed_out`: its deadline passed, and it was ended.
    `report`: what it wrote on a pipe of its own for that.
    """

    code: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False
    timed_out: bool = False
    report: bytes = b""


async def run_process(
    argv: Sequence[str],
    *,
    timeout: float,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bytes = b"",
    output_limit: int = OUTPUT_LIMIT,
    grace: float = GRACE,
    report_limit: int = 0,
) -> Finished:
    """Runs a program in `cwd` with exactly the environment `env`; keeps `output_limit` bytes of what it prints in all.

    `timeout` and `grace` are seconds. The program reads `stdin` from a file, so it need not read it. When the caller is
    cancelled the program is ended before CancelledError goes on; cancelled again, the grace is cut short. With a
    `report_limit`, in bytes, the number of a pipe for a report is added to the arguments.
    Raises PermanentError when the program cannot be started, StepError when it cannot be ended.
    """
    if not argv:
        raise PermanentError("no program is named; give its name and its arguments")
    output, report = Output(output_limit), Output(report_limit, 1 if report_limit else 0)
    told = (*argv, *map(str, report.write_ends))
    program = _Program(told, stdin, cwd, env, (*output.write_ends, *report.write_ends))
    try:
        done = await _finished(program, output, timeout, grace)
        if not program.ended.done():
            raise StepError(f"{argv[0]!r} cannot be ended, not even by SIGKILL; end it by hand")
        code = program.ended.result()
        stdout, stderr = output.drain()
        said = b"".join(report.drain())
    finally:
        output.close()
        report.close()
    return Finished(code, stdout, stderr, truncated=output.full.done(), timed_out=not done, report=said)


async def _finished(program: _Program, output: Output, timeout: float, grace: float) -> bool:
    """Waits for the end, the limit or the deadline, then sees to the end; False when the deadline passed."""
    try:
        done, _ = await asyncio.wait({program.ended, output.full}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await program.stop(grace)
    return bool(done)


class _Program:
    """A process that a thread starts, waits for and reaps. `ended` holds its exit code, or why it did not start."""

    __slots__ = ("_lock", "_loop", "_pid", "_told", "ended")

    def __init__(
        self, argv: Sequence[str], stdin: bytes, cwd: Path, env: Mapping[str, str], write_ends: tuple[int, ...]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._pid: int | None = None
        self._told: signal.Signals | None = None
        self.ended: asyncio.Future[int] = self._loop.create_future()
        Thread(target=self._live, args=(argv, stdin, cwd, env, write_ends), daemon=True, name="program").start()

    async def stop(self, grace: float) -> None:
        """Ends the whole group and waits until it has ended, GRACE seconds after SIGKILL at the most."""
        try:
            if not self.ended.done():
                self.signal(signal.SIGTERM)
                await asyncio.wait({self.ended}, timeout=grace)
        finally:
            self.signal(signal.SIGKILL)
        await asyncio.wait({self.ended}, timeout=GRACE)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the whole group; one that is only now being started gets the last one as soon as it is."""
        with self._lock:
            self._told = number
            if self._pid is not None:
                _signal_group(self._pid, number)

    def _live(
        self, argv: Sequence[str], stdin: bytes, cwd: Path, env: Mapping[str, str], ends: tuple[int, ...]
    ) -> None:
        try:
            process = _start(argv, stdin, cwd, env, ends)
        except StepError as error:
            self._report(error)
            return
        with self._lock:
            self._pid = process.pid
            if self._told is not None:
                _signal_group(process.pid, self._told)
        _wait_for_exit(process)
        with self._lock:
            _signal_group(process.pid, signal.SIGKILL)
            code = process.wait()
            self._pid = None
        self._report(code)

    def _report(self, outcome: int | StepError) -> None:
        with suppress(RuntimeError):  # the event loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(_settle, self.ended, outcome)


def _settle(ended: asyncio.Future[int], outcome: int | StepError) -> None:
    if isinstance(outcome, StepError):
        ended.set_exception(outcome)
        ended.exception()  # seen, also when a cancelled caller no longer looks
    else:
        ended.set_result(outcome)


def _start(
    argv: Sequence[str], stdin: bytes, cwd: Path, env: Mapping[str, str], ends: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    try:
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            return subprocess.Popen(
                argv,
                stdin=given,
                stdout=ends[0],
                stderr=ends[1],
                cwd=cwd,
                env=env,
                pass_fds=ends[2:],
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        raise _not_started(argv, cwd, error) from None
    finally:
        for end in ends:
            os.close(end)


def _not_started(argv: Sequence[str], cwd: Path, error: OSError | ValueError) -> StepError:
    name = argv[0]
    match error:
        case FileNotFoundError() if cwd.is_dir() and not Path(name).exists():
            return PermanentError(
                f"there is no program {name!r}; install it where the worker runs, or give its full path"
            )
        case PermissionError():
            return PermanentError(f"{name!r} may not be run; make it executable, or name the program that reads it")
        case OSError():
            return PermanentError(f"{name!r} cannot be started: {error.strerror or error}")
        case _:
            return PermanentError(f"{name!r} cannot be started: {error}; mend the arguments")


def _wait_for_exit(process: subprocess.Popen[bytes]) -> None:
    """Waits until the process has ended, and leaves it unreaped where the system can."""
    if sys.platform == "darwin":  # has no waitid before Python 3.13
        process.wait()
    else:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
