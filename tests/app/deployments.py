"""A deployment in processes of its own on the shared RabbitMQ, with names of its own there and a store in a folder."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq
from tests.forked import Forked, fork
from tests.processes import Said, lines_of, logged, plain, stop

from redraft.events.backends import open_store
from redraft.events.bus.port import INBOX, work_queue
from redraft.events.messages.domain_events import RunEnded
from redraft.events.messages.envelope import Recorded
from redraft.events.rabbit.topology import Kind

ACTORS = """
import time
from pathlib import Path
from redraft.actors import Critique, Workflow, critic, generator, publisher, refiner, score

HERE = Path(__file__).parent

def note(context):
    with (HERE / "worked.txt").open("a") as file:
        file.write(f"{context.path}#{context.attempt}\\n")

@generator
def write(brief, context):
    note(context)
    return brief.text

@critic
def judge(draft, context):
    note(context)
    while (HERE / "hold").exists():
        time.sleep(0.01)
    return Critique(min(1, draft.version / 3))

@refiner
def improve(draft, context):
    note(context)
    return draft.text + " more"

@publisher
def save(draft, context):
    note(context)
    return "nowhere"

loop = Workflow("loop").start_with(write)
loop = loop.repeat_until(score >= 1, max_iterations=5, name="Loop", body=[judge, improve]).finally_(save)
"""
QUEUES = (
    INBOX,
    work_queue("generator", "write"),
    work_queue("critic", "judge"),
    work_queue("refiner", "improve"),
    work_queue("publisher", "save"),
)
DEADLINE = 90.0
PARTITIONS = 3
"""Fewer than usual: each is a queue that a broker has to make."""


class Deployment:
    """`folder` holds the actors, the store, and a log for each process that was started.

    `bus` is that of processes that are given none of their own, `settings` are those of all,
    and `python` is what their workers run tests with, if not what runs them. `quicker`: see `fork`.
    """

    def __init__(
        self, folder: Path, prefix: str, store: str, queues: Kind, bus: str = URL, settings: Mapping[str, str] = {}
    ) -> None:
        self.bus = bus
        self.settings = settings
        self.folder = folder
        self.python = ""
        self.quicker: dict[str, float] = {}
        self.prefix = prefix
        self.store = store
        self.queues = queues
        self.processes: list[Forked] = []
        self.queues_made = list(QUEUES)
        (folder / "loop.py").write_text(ACTORS)

    def environment(self, bus: str = "") -> dict[str, str]:
        place = {"REDRAFT_STORE": self.store, "REDRAFT_BUS": bus or self.bus, **self.settings}
        few = {"REDRAFT_INBOX_PARTITIONS": str(PARTITIONS)}
        return plain(**few | place, REDRAFT_BROKER_PREFIX=self.prefix, REDRAFT_QUEUE_TYPE=self.queues)

    def start(self, name: str, *arguments: str, bus: str = "") -> Forked:
        """A process that serves; its log is `NAME.log`."""
        with self.log(name).open("ab") as log:
            process = self._fork(*arguments, bus=bus, stderr=log.fileno())
        self.processes.append(process)
        return process

    def call(self, *arguments: str, bus: str = "") -> Said:
        """A command, waited for."""
        with self._fork(*arguments, bus=bus, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, err = process.communicate(timeout=DEADLINE)
            return Said(process.wait(), out, err)

    def _fork(self, *arguments: str, bus: str = "", **files: int) -> Forked:
        return fork(
            "redraft",
            *arguments,
            folder=self.folder,
            environment=self.environment(bus),
            python=self.python,
            quicker=self.quicker,
            **files,
        )

    def json(self, *arguments: str) -> Any:
        said = self.call(*arguments, "--json")
        assert said.code == 0, said.err
        return json.loads(said.out)

    def submit(self, *arguments: str) -> str:
        said = self.call("submit", "loop.py:loop", "a text", *arguments)
        assert said.code == 0, said.err
        return said.out.strip()

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The log of a process: every line of it is JSON."""
        return logged(self.log(name))

    def said(self, name: str, event: str) -> list[dict[str, Any]]:
        """What a process logged under this event."""
        return [line for line in self.lines(name) if line["event"] == event]

    def serving(self, name: str, times: int = 1) -> None:
        self.until(f"{name} serves", lambda: [line["event"] for line in self.lines(name)].count("serving") >= times)

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"not within {DEADLINE:g} s: {what}; {self.logs()}")
            time.sleep(0.02)

    def ended(self, *runs: str) -> None:
        """Waits until these runs have ended."""
        end = time.monotonic() + DEADLINE
        for run in runs:
            while not asyncio.run(self._ended(run, end - time.monotonic())):
                assert time.monotonic() < end, f"run {run} has not ended; {self.logs()}"

    async def _ended(self, run: str, within: float) -> bool:
        """Whether the run ended before the log was silent for this long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(within, 0.1)), open_store(self.store, poll=0.05) as store:
                async for batch in store.tail(0):
                    if any(event.run == run and isinstance(event.data, RunEnded) for event in batch):
                        return True
        return False

    async def _history(self, run: str) -> tuple[Recorded, ...]:
        async with open_store(self.store) as store:
            assert await store.verify(run) > 0
            return await store.read(run)

    def history(self, run: str) -> tuple[Recorded, ...]:
        """The events of a run, each hash of which was verified."""
        return asyncio.run(self._history(run))

    def logs(self) -> dict[str, str]:
        return {path.name: path.read_text()[-2000:] for path in self.folder.glob("*.log")}

    def worked(self) -> list[str]:
        """Every piece of work that was begun, such as `Loop[1]/judge#1`."""
        return lines_of(self.folder / "worked.txt")

    def stop(self) -> None:
        stop(self.processes)


@contextmanager
def deployment(folder: Path, store: str = "", queues: Kind = "quorum") -> Iterator[Deployment]:
    """Ends every process, and takes away what they made on the broker. Skips the test where there is no broker."""
    require_rabbitmq()
    made = Deployment(folder, new_prefix(), store or f"sqlite:///{folder / 'store.db'}", queues)
    try:
        yield made
    finally:
        made.stop()
        asyncio.run(clear(URL, made.prefix, made.queues_made))
