"""A broker that restarts, or loses all that it has, under a deployment at work: what nobody has any more is sent again
soon, and nothing that a living worker has is done twice.
"""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Final

import pytest
from tests.events.rabbit_node import RabbitNode, server_script

from redraft.actors import Actor, Workflow, generator
from redraft.app.client.client import Client
from redraft.app.process.logs import new_log
from redraft.app.server.access.identity import NOBODY
from redraft.app.server.leases import Leases
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.wiring.coordinating import coordinate
from redraft.app.wiring.deployment import open_bus, open_client, open_survey, work
from redraft.events.bus.port import work_queue
from redraft.events.messages.domain_events import RunEnded, StepFailed, StepRequested

pytestmark = pytest.mark.check

WRITE: Final = work_queue("generator", "write")
RUNS: Final = 6
WORKERS: Final = 2
SOON: Final = 90.0
"""Seconds after which what a broker lost counts as not sent again: many times what it takes, on a busy machine too."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    made = RabbitNode(tmp_path_factory.mktemp("rabbit"), server_script())
    made.start()
    yield made
    made.close()


class Scene:
    """A workflow of one step, whose calls are counted by their briefs and wait for `go`; each worker does one."""

    def __init__(self, folder: Path, node: RabbitNode) -> None:
        self.calls: Counter[str] = Counter()
        self.go = asyncio.Event()
        self.log = io.StringIO()
        self.node = node
        place = {"store": f"sqlite:///{folder / 'store.db'}", "bus": node.url, "broker_prefix": folder.name}
        self.settings: Settings = read_settings(**place, worker_concurrency=1)

        @generator
        async def write(brief):
            self.calls[brief.text] += 1
            await self.go.wait()
            return brief.text

        self.actors: tuple[Actor, ...] = (write,)
        self.workflow = Workflow("message").start_with(write)

    @asynccontextmanager
    async def deployed(self, workers: int = WORKERS) -> AsyncIterator[Client]:
        """A coordinator and the workers, for as long as the block lasts."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(_beside(coordinate(self.settings, lambda: None, self.logger())))
            for _ in range(workers):
                working = work(self.settings, self.actors, asyncio.Event(), lambda: None, self.logger())
                await stack.enter_async_context(_beside(working))
            async with open_survey(self.settings) as survey:
                while workers and ((depth := await survey.queue(WRITE)) is None or depth.consumers < workers):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            yield await stack.enter_async_context(open_client(self.settings))

    async def until_waiting(self, number: int) -> None:
        """Returns once so many requests wait in the queue."""
        async with open_survey(self.settings) as survey:
            while (depth := await survey.queue(WRITE)) is None or depth.waiting != number:  # noqa: ASYNC110 - silent
                await asyncio.sleep(0.02)

    async def until_sent_again(self, number: int) -> None:
        """Returns once so many requests were sent again, or more; fails after `SOON` with what the parts have said."""
        try:
            async with asyncio.timeout(SOON):
                while self.sent_again() < number:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0.02)
        except TimeoutError:
            async with open_survey(self.settings) as survey:
                pytest.fail(f"{await survey.queue(WRITE)}, {dict(self.calls)}, {self.log.getvalue()}")

    def sent_again(self) -> int:
        return self.log.getvalue().count('"sent again"')

    async def restart(self, *, wiped: bool) -> None:
        await asyncio.to_thread(self.node.stop)
        if wiped:
            self.node.wipe()
        await self.node.restart()

    def logger(self):
        return new_log(self.log, "json", "test")


@asynccontextmanager
async def _beside(part: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(part)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("wiped", [False, True], ids=["restarted", "wiped"])
async def test_what_a_broker_loses_is_sent_again_soon_and_what_workers_have_is_done_once(
    tmp_path: Path, node: RabbitNode, *, wiped: bool
) -> None:
    scene = Scene(tmp_path, node)
    async with asyncio.timeout(170), scene.deployed() as client:
        runs = [await client.submit(scene.workflow, f"brief {number}") for number in range(RUNS)]
        while scene.calls.total() < WORKERS:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)
        await scene.until_waiting(RUNS - WORKERS)
        await scene.restart(wiped=wiped)
        await scene.until_sent_again(RUNS - WORKERS)
        scene.go.set()
        for run in runs:
            await client.wait(run)
        assert scene.sent_again() == RUNS - WORKERS, "what a worker has is not sent again"
        histories = [[event.data for event in await client.history(run)] for run in runs]
    assert scene.calls == {f"brief {number}": 1 for number in range(RUNS)}
    for events in histories:
        assert [each.attempt for each in events if isinstance(each, StepRequested)] == [1]
        assert not any(isinstance(each, StepFailed) for each in events)
        assert isinstance(events[-1], RunEnded)


async def test_what_is_leased_by_http_is_not_sent_again_and_what_waited_beside_it_is(
    tmp_path: Path, node: RabbitNode
) -> None:
    """Each lease, and each wait for one, is a consumer of the queue; a server answers for all of its own."""
    scene = Scene(tmp_path, node)
    async with (
        asyncio.timeout(170),
        scene.deployed(workers=0) as client,
        open_bus(scene.settings) as bus,
        Leases(bus, 1_000_000, lambda: token_hex(16), scene.logger(), peers=bus) as leases,
    ):
        runs = [await client.submit(scene.workflow, f"brief {number}") for number in range(3)]
        held = [await leases.take(NOBODY, ("generator", "write"), 60, 100) for _ in range(2)]
        await scene.until_waiting(1)
        await scene.restart(wiped=False)
        await scene.until_sent_again(1)
        again = asyncio.create_task(leases.take(NOBODY, ("generator", "write"), 60, 100))
        for each in filter(None, held):  # the other one may lie behind either of them
            leases.drop(NOBODY, each.id)
        found = (*held, await again)
        assert {each.work.request.run for each in found if each} == set(runs)
        assert scene.sent_again() == 1, "what is leased is not sent again"
