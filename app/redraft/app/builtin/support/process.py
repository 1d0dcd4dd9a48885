"""Runs a program until it ends, or ends it at its deadline or output limit, with nothing of it left behind.

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

from redraft.events.errors import PermanentError, StepError

_CHUNK: Final = 65_536


class Output:
    """Pipes (two by default, for standard output and error), read as data arrives until `limit` bytes are kept.

    `full` is done, with the bytes that were kept, as soon as a program has printed more than the limit. Both write ends
    belong to whoever starts the program and must be closed by it; the read ends are closed by `close`.
    """

    __slots__ = ("_kept", "_loop", "_open", "_room", "full", "write_ends")

    def __init__(self, limit: int, number: int = 2) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = limit
        self.full: asyncio.Future[int] = self._loop.create_future()
        pipes = [os.pipe() for _ in range(number)]
        self.write_ends = tuple(write for _, write in pipes)
        self._kept: dict[int, bytearray] = {read: bytearray() for read, _ in pipes}
        self._open = set(self._kept)
        for read in self._kept:
            os.set_blocking(read, False)
            self._loop.add_reader(read, self._take, read)

    def drain(self) -> tuple[bytes, ...]:
        """Returns the bytes that came by each pipe until now; does not wait for more."""
        for read in tuple(self._open):
            while self._take(read):
                pass
        return tuple(map(bytes, self._kept.values()))

    def close(self) -> None:
        """Closes the read ends; a program that still prints is told by a broken pipe."""
        for read in tuple(self._open):
            self._shut(read)

    def _take(self, read: int) -> bool:
        """Keeps one chunk; False when there is none for now, or no more."""
        if self.full.done():
            self._loop.remove_reader(read)
            return False
        try:
            chunk = os.read(read, min(_CHUNK, self._room + 1))
        except BlockingIOError:
            return False
        self._kept[read] += chunk[: self._room]
        if len(chunk) > self._room:
            self.full.set_result(sum(map(len, self._kept.values())))
        self._room = max(0, self._room - len(chunk))
        if not chunk:
            self._shut(read)
        return bool(chunk)

    def _shut(self, read: int) -> None:
        self._loop.remove_reader(read)
        self._open.discard(read)
        os.close(read)


OUTPUT_LIMIT: Final = 1024 * 1024
"""The number of bytes of output that are kept by default."""
GRACE: Final = 2.0
"""Seconds that a program has to end by itself after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a program. `code` is its exit code, or minus the number of the signal that ended it.

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
    command = (*argv, *map(str, report.write_ends))
    program = _Program(command, stdin, cwd, env, (*output.write_ends, *report.write_ends))
    try:
        done = await _wait_for_end(program, output, timeout, grace)
        if not program.ended.done():
            raise StepError(f"{argv[0]!r} cannot be ended, not even by SIGKILL; end it by hand")
        code = program.ended.result()
        stdout, stderr = output.drain()
        reported = b"".join(report.drain())
    finally:
        output.close()
        report.close()
    return Finished(code, stdout, stderr, truncated=output.full.done(), timed_out=not done, report=reported)


async def _wait_for_end(program: _Program, output: Output, timeout: float, grace: float) -> bool:
    """Waits for the end, the limit or the deadline, then sees to the end; False when the deadline passed."""
    try:
        done, _ = await asyncio.wait({program.ended, output.full}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await program.stop(grace)
    return bool(done)


class _Program:
    """A process that a thread starts, waits for and reaps. `ended` holds its exit code, or why it did not start."""

    __slots__ = ("_end_signal", "_lock", "_loop", "_pid", "ended")

    def __init__(
        self, argv: Sequence[str], stdin: bytes, cwd: Path, env: Mapping[str, str], write_ends: tuple[int, ...]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._pid: int | None = None
        self._end_signal: signal.Signals | None = None
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
            self._end_signal = number
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
            if self._end_signal is not None:
                _signal_group(process.pid, self._end_signal)
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
        with tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            return subprocess.Popen(
                argv,
                stdin=file,
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
            return PermanentError(f"{name!r} cannot be started: {error}; correct the arguments")


def _wait_for_exit(process: subprocess.Popen[bytes]) -> None:
    """Waits until the process has ended, and leaves it unreaped where the system can."""
    if sys.platform == "darwin":  # has no waitid before Python 3.13
        process.wait()
    else:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
