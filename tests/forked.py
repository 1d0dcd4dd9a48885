"""Processes of the command line that begin at once, as they need not import anything: see `fork_server`.

They are processes as any other, with a folder, an environment, files and signals of their own. That each verb begins
in a Python that has imported nothing is tested in `test_cli_processes`.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from signal import SIGKILL, Signals
from typing import IO, Final, Self

_SERVER: Final = Path(__file__).with_name("fork_server.py")


class Server:
    """The process that all others are forked from."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._asked = 0
        self._control, other = socket.socketpair()
        self._answers = self._control.makefile("rb")
        with other:
            command = [sys.executable, "-W", "error", _SERVER, str(other.fileno())]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[other.fileno()])

    def ask(self, what: object, *files: int) -> int | None:
        """The answer. One to a question that a test which was cut off did not wait for is passed over."""
        with self._asking:
            self._asked += 1
            message = json.dumps([self._asked, what]).encode() + b"\n"
            sent = socket.send_fds(self._control, [message], files)
            self._control.sendall(message[sent:])
            while True:
                number, answer = json.loads(self._answers.readline())
                if number == self._asked:
                    return None if answer is None else int(answer)

    def close(self) -> None:
        self._answers.close()
        self._control.close()
        self._process.wait()


@cache
def server() -> Server:
    """One for this process, from when it is first needed on."""
    made = Server()
    atexit.register(made.close)
    return made


class Forked:
    """A process, with the methods of `subprocess.Popen` that tests use. Pipes are of text."""

    def __init__(self, pid: int, pipes: Mapping[str, IO[str]]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin = pipes.get("stdin")
        self.stdout = pipes.get("stdout")
        self.stderr = pipes.get("stderr")

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        if self.returncode is None:
            self.returncode = server().ask(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutExpired."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(0.005)
        return self.returncode or 0

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(Signals.SIGTERM)

    def kill(self) -> None:
        self.send_signal(SIGKILL)

    def communicate(self, given: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Writes to the process, reads all that it writes, and waits for its end. Raises TimeoutExpired."""
        said: dict[str, str] = {}
        readers = [
            threading.Thread(target=lambda name=name, pipe=pipe: said.update({name: pipe.read()}), daemon=True)
            for name, pipe in (("out", self.stdout), ("err", self.stderr))
            if pipe and not pipe.closed
        ]
        for reader in readers:
            reader.start()
        if self.stdin and not self.stdin.closed:
            try:
                self.stdin.write(given)
                self.stdin.close()
            except BrokenPipeError:
                pass  # it has ended, or does not want it
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return said.get("out", ""), said.get("err", "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.kill()
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe:
                pipe.close()
        self.wait()


def fork(
    *command: str,
    folder: Path,
    environment: Mapping[str, str],
    python: str = "",
    quicker: Mapping[str, float] = {},
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
) -> Forked:
    """A process that does `python -m redraft ARGUMENTS` for ("redraft", *arguments), or else runs a script.

    Each of the three is the number of an open file, or PIPE or DEVNULL of `subprocess`. `python` is what its
    `sys.executable` is to be, if not what runs it; `quicker` has waits, such as "package.module.WAIT", and by how many
    times each is to be shorter.
    """
    pipes: dict[str, IO[str]] = {}
    with ExitStack() as open_here:
        wanted = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        files = [_file(name, number, pipes, open_here) for name, number in wanted.items()]
        asked = {
            "command": command,
            "folder": str(folder),
            "environment": dict(environment),
            "python": python,
            "quicker": dict(quicker),
        }
        pid = server().ask(asked, *files)
    assert pid
    return Forked(pid, pipes)


def _file(name: str, wanted: int, pipes: dict[str, IO[str]], open_here: ExitStack) -> int:
    """The file that the process is to have; our end of a pipe is put to the others."""
    if wanted == subprocess.DEVNULL:
        theirs = os.open(os.devnull, os.O_RDWR)
    elif wanted == subprocess.PIPE:
        ends = os.pipe()
        theirs, ours = ends if name == "stdin" else reversed(ends)
        pipes[name] = os.fdopen(ours, "w" if name == "stdin" else "r", encoding="utf-8")
    else:
        return wanted
    open_here.callback(os.close, theirs)
    return theirs
