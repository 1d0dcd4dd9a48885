"""The processes of a part: two coordinators and two workers, each started again when it was killed or died."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

from tests.chaos.campaign import workflow

Kind = Literal["coordinator", "worker"]

COORDINATORS: Final = ("coordinator-1", "coordinator-2")
WORKERS: Final = ("worker-1", "worker-2")
STOPPING: Final = 30.0
"""Seconds that a process has to end when it is told to."""


class Program:
    """A `redraft` process and its log."""

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self._command = [sys.executable, "-m", "redraft", *arguments]
        self._environment = environment
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._changing = Lock()
        self._starts = 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> Path:
        return self._folder / f"{self.name}.log"

    def start(self) -> None:
        """Starts it; what it logs is added to its log."""
        self._starts += 1
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def kill(self) -> None:
        """kill -9, waited for."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def replace(self) -> None:
        """kill -9, and started again at once, as a supervisor does."""
        with self._changing:
            self.kill()
            self.start()

    def serves(self) -> bool:
        """Whether it serves, since it was started last."""
        return len(self.lines("serving")) >= self._starts

    def revive(self) -> bool:
        """Starts it again if it ended by itself; returns whether it did."""
        with self._changing:
            died = self._process is not None and self._process.poll() is not None
            if died:
                self.start()
            return died

    def told(self) -> None:
        """Tells it to end."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def ended(self) -> bool:
        """Waits until it has ended; whether that was by itself."""
        if self._process is None:
            return True
        try:
            self._process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def lines(self, event: str) -> list[dict[str, Any]]:
        """What it logged under this event."""
        if not self.log.exists():
            return []
        told = [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]
        return [line for line in told if line["event"] == event]


class Deployment:
    """All processes of a part, on these settings, in a folder that has the workflow too.

    `odd` is what the second of each kind has in its environment beside.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str], odd: Mapping[str, str]) -> None:
        self.folder = folder
        shutil.copy(workflow.__file__, folder / "workflow.py")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("REDRAFT_")}
        self.environment = kept | dict(settings) | {"PYTHONWARNINGS": "error", "REDRAFT_LOG": "json"}
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
        for program in self.programs.values():
            program.told()
        return [program.name for program in self.programs.values() if not program.ended()]

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
        ended = subprocess.run(
            [sys.executable, "-m", "redraft", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(f"redraft {' '.join(arguments)} ended with {ended.returncode}: {ended.stderr[-500:]}")
        return ended.stdout
