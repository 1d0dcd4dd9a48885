"""A deployment on servers that may be broken: `redraft up` in a folder, runs submitted to it, and what it did."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.chaos import loop
from tests.events.postgres_cluster import Cluster
from tests.events.rabbit_node import RabbitNode
from tests.events.rabbit_server import new_prefix
from tests.processes import Said, called, lines_of, logged, plain, started, stop

from redraft.app.settings.settings import read_settings
from redraft.app.wiring.deployment import open_client
from redraft.events.backends import open_store
from redraft.events.errors import StoreError
from redraft.events.messages.domain_events import RunEnded
from redraft.events.rabbit.topology import Kind

DEADLINE: Final = 60.0
"""Seconds in which a command ends and a process serves, on a busy machine."""


class Scene:
    """`folder` holds the workflow, what its functions noted, and a log for each process that was started.

    `queues` is the kind of those on the broker.
    """

    queues: Kind = "quorum"

    def __init__(self, folder: Path, node: RabbitNode, cluster: Cluster) -> None:
        self.folder = folder
        self.node = node
        self.cluster = cluster
        self.prefix = new_prefix()
        self.store = cluster.new_database(self.prefix.replace("-", "_"))
        self._processes: list[subprocess.Popen[bytes]] = []
        shutil.copy(loop.__file__, folder / "loop.py")

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A process that serves; its log is `NAME.log`."""
        log = self.folder / f"{name}.log"
        process = started(*arguments, folder=self.folder, environment=self._environment(), log=log)
        self._processes.append(process)
        return process

    async def call(self, *arguments: str, within: float = DEADLINE) -> Said:
        """A command, waited for."""
        environment = self._environment()
        return await asyncio.to_thread(called, *arguments, folder=self.folder, environment=environment, within=within)

    async def json(self, *arguments: str, within: float = DEADLINE) -> Any:
        said = await self.call(*arguments, "--json", within=within)
        assert said.code == 0, said
        return json.loads(said.out)

    async def up(self, *options: str) -> None:
        """`redraft up`, and a first run through it: whatever it needs on the servers is there after that."""
        self.start("up", "up", "loop.py", *options)
        await self.until("all of it serves", self._all_serve, 2 * DEADLINE)
        said = await self.call("submit", "loop.py:loop", "the first", "--wait", "--quiet")
        assert said.code == 0, (said, self.logs())

    def _all_serve(self) -> bool:
        """On a busy machine a node takes its time for the first connections; processes try again, commands do not."""
        lines = self.lines()
        expected = {name for line in lines if line["event"] == "starting" for name in line["processes"]}
        return bool(expected) and expected <= {line["process"] for line in lines if line["event"] == "serving"}

    async def submit(self, number: int) -> list[str]:
        """So many runs; they are safe on the broker when this returns."""
        settings = read_settings(store=self.store, bus=self.node.url, broker_prefix=self.prefix, queue_type=self.queues)
        async with asyncio.timeout(DEADLINE), open_client(settings, reads=False) as client:
            texts = [f"text {each}" for each in range(number)]
            return list(await asyncio.gather(*[client.submit(loop.loop, text) for text in texts]))

    async def until(self, what: str, condition: Callable[[], bool], within: float = DEADLINE) -> None:
        end = time.monotonic() + within
        while not condition():
            assert time.monotonic() < end, f"not within {within:g} s: {what}; {self.logs()}"
            await asyncio.sleep(0.01)

    async def ended(self, runs: list[str], within: float) -> None:
        """Waits until these runs have ended, however often the store goes away meanwhile."""
        waiting, after = set(runs), 0
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while waiting:
                    with suppress(StoreError):
                        after = await self._follow(waiting, after)
                    await asyncio.sleep(0.1)
        assert not waiting, f"{len(waiting)} have not ended within {within:g} s: {sorted(waiting)[:3]}; {self.logs()}"

    async def _follow(self, waiting: set[str], after: int) -> int:
        """Takes from `waiting` what ended after this position; gives the position of the last event."""
        async with open_store(self.store, poll=0.1) as store:
            async for batch in store.tail(after, follow=False):
                waiting.difference_update(event.run for event in batch if isinstance(event.data, RunEnded))
                after = batch[-1].position
        return after

    def worked(self) -> list[str]:
        """Every piece of work that was begun, such as `RUN Loop[1]/judge#1`."""
        return lines_of(self.folder / "worked.txt")

    def lines(self, name: str = "up") -> list[dict[str, Any]]:
        return logged(self.folder / f"{name}.log")

    def said(self, event: str, process: str, name: str = "up") -> list[dict[str, Any]]:
        """What a process logged under this event."""
        return [line for line in self.lines(name) if (line["event"], line["process"]) == (event, process)]

    def kill(self, process: str, name: str = "up") -> None:
        """kill -9 for the process that last began to serve under this name."""
        os.kill(self.said("serving", process, name)[-1]["pid"], signal.SIGKILL)

    def logs(self) -> dict[str, str]:
        return {path.name: path.read_text()[-4000:] for path in self.folder.glob("*.log")}

    def stop(self) -> None:
        stop(self._processes)

    def _environment(self) -> dict[str, str]:
        place = {"REDRAFT_STORE": self.store, "REDRAFT_BUS": self.node.url}
        return plain(**place, REDRAFT_BROKER_PREFIX=self.prefix, REDRAFT_QUEUE_TYPE=self.queues)


@contextmanager
def scene(folder: Path, node: RabbitNode, cluster: Cluster) -> Iterator[Scene]:
    """Ends every process that it started."""
    made = Scene(folder, node, cluster)
    try:
        yield made
    finally:
        made.stop()
