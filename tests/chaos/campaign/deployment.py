"""The processes of a part: two coordinators and two workers, each started again when it was killed or died."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

from tests.chaos.campaign import workflow
from tests.processes import called, logged, plain, started, stop

Kind = Literal["coordinator", "worker"]

COORDINATORS: Final = ("coordinator-1", "coordinator-2")
WORKERS: Final = ("worker-1", "worker-2")

LIBFAKETIME: Final = ("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1")


class Skipped(Exception):
    """A part cannot be tried here; the text says why, and what would help."""


class Program:
    """A `redraft` process and its log."""

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.process: subprocess.Popen[bytes] | None = None
        self._arguments = arguments
        self._environment = environment
        self._folder = folder
        self._changing = Lock()

    @property
    def log(self) -> Path:
        return self._folder / f"{self.name}.log"

    def start(self) -> None:
        """Starts it; what it logs is added to its log."""
        self.process = started(*self._arguments, folder=self._folder, environment=self._environment, log=self.log)

    def kill(self) -> None:
        """kill -9, waited for."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The process that there is stands still while the block lasts."""
        assert self.process is not None
        process = self.process
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def replace(self) -> None:
        """kill -9, and started again at once, as a supervisor does."""
        with self._changing:
            self.kill()
            self.start()

    def serves(self) -> bool:
        """Whether it serves, since it was started last."""
        return self.process is not None and any(line["pid"] == self.process.pid for line in self.lines("serving"))

    def revive(self) -> bool:
        """Starts it again if it ended by itself; returns whether it did."""
        with self._changing:
            died = self.process is not None and self.process.poll() is not None
            if died:
                self.start()
            return died

    def lines(self, event: str) -> list[dict[str, Any]]:
        """What it logged under this event."""
        return [line for line in logged(self.log) if line["event"] == event]


class Deployment:
    """All processes of a part, on these settings, in a folder that has the workflow too.

    `odd` is what the second of each kind has in its environment beside.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str], odd: dict[str, str]) -> None:
        self.folder = folder
        shutil.copy(workflow.__file__, folder / "workflow.py")
        self.environment = plain(**settings, REDRAFT_LOG_FORMAT="json")
        orders = {name: ("coordinator", "--name", name) for name in COORDINATORS}
        orders |= {name: ("worker", "workflow.py", "--name", name) for name in WORKERS}
        self.programs = {
            name: Program(name, order, self.environment | (odd if name.endswith("-2") else {}), folder)
            for name, order in orders.items()
        }

    def start(self) -> None:
        for program in self.programs.values():
            program.start()

    def stop(self) -> list[str]:
        """Ends all; returns those that had to be killed."""
        killed = stop([program.process for program in self.programs.values() if program.process])
        return [program.name for program in self.programs.values() if program.process in killed]

    def of(self, kind: Kind) -> list[Program]:
        return [program for name, program in self.programs.items() if name.startswith(kind)]

    def relaying(self) -> Program:
        """The coordinator that began to relay last."""
        since = {name: self.programs[name].lines("relaying") for name in COORDINATORS}
        latest = max(COORDINATORS, key=lambda name: since[name][-1]["timestamp"] if since[name] else "")
        return self.programs[latest]

    def serves(self) -> bool:
        return all(program.serves() for program in self.programs.values())

    def restart_dead(self) -> list[str]:
        """Starts again whatever ended by itself, as a supervisor does."""
        return [program.name for program in self.programs.values() if program.revive()]

    def call(self, *arguments: str, within: float = 120.0) -> str:
        """A command, waited for; what it wrote. Raises RuntimeError when it fails, with what it said."""
        said = called(*arguments, folder=self.folder, environment=self.environment, within=within)
        if said.code:
            raise RuntimeError(f"redraft {' '.join(arguments)} ended with {said.code}: {said.err[-500:]}")
        return said.out


def faked(clock: Path) -> dict[str, str]:
    """What makes the clock of a process follow a file; monotonic time is left alone. Raises Skipped."""
    library = next((each for each in LIBFAKETIME if Path(each).exists()), None)
    if library is None:
        raise Skipped("libfaketime is not installed (on Debian: apt-get install libfaketime)")
    clock.write_text("+0s\n")
    return {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
