"""A deployment whose broker loses what it confirmed, purged by hand: what is lost is asked for again, and only that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import aio_pika
import pytest
from tests.app.wiring.test_deployment import quiet_log
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq

from redraft.actors import Actor, Critique, Workflow, critic, generator, score
from redraft.actors.runtime.working import in_flight as missing
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.wiring.coordinating import coordinate
from redraft.app.wiring.deployment import open_client, open_survey, work
from redraft.events.bus.port import INBOX, work_queue
from redraft.events.messages.domain_events import RunEnded, StepFailed, StepRequested
from redraft.events.rabbit.topology import Kind, Names

pytestmark = pytest.mark.check

WRITE, JUDGE, TAKEN = work_queue("generator", "write"), work_queue("critic", "judge"), work_queue("generator", "taken")
WITHIN = 60.0


class Scene:
    """The workflow and its actors, which count their calls, on names of its own; each waits for `go`."""

    def __init__(self, folder: Path, queues: Kind) -> None:
        self.calls: list[str] = []
        self.go = asyncio.Event()
        place = {"store": f"sqlite:///{folder / 'store.db'}", "bus": URL, "broker_prefix": new_prefix()}
        self.settings: Settings = read_settings(**place, queue_type=queues, inbox_partitions=0)

        @generator
        async def write(brief):
            return await self._called("write")

        @critic
        async def judge(draft):
            await self._called("judge")
            return Critique(1.0)

        self.actors: tuple[Actor, ...] = (write, judge)
        loop = Workflow("message").start_with(write)
        self.workflow = loop.repeat_until(score >= 1, max_iterations=1, body=[judge])

    async def _called(self, what: str) -> str:
        self.calls.append(what)
        await self.go.wait()
        return what

    async def waiting(self, queue: str, number: int) -> None:
        """Returns once so many messages wait in a queue."""
        async with open_survey(self.settings) as survey:
            while (depth := await survey.queue(queue)) is None or depth.waiting != number:  # noqa: ASYNC110 - silent
                await asyncio.sleep(0.02)

    async def lose_answer(self) -> None:
        """Takes messages from the inbox until an answer is among them; a command may have come back there before."""
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            queue = await channel.get_queue(Names(self.settings.broker_prefix).there(INBOX))
            while True:
                message = await queue.get(no_ack=True, fail=False)
                if message and any("outcome." in str(value) for value in (message.type, *message.headers.values())):
                    return

    async def take_away(self, queue: str) -> None:
        """Makes a queue as a stranger does, with settings of their own."""
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            name = Names(self.settings.broker_prefix).there(queue)
            await channel.declare_queue(name, durable=True, arguments={"x-max-length": 5})

    async def purge(self, queue: str) -> None:
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            await (await channel.get_queue(Names(self.settings.broker_prefix).there(queue))).purge()

    @asynccontextmanager
    async def coordinator(self) -> AsyncIterator[None]:
        async with _beside(coordinate(self.settings, lambda: None, quiet_log())):
            yield

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        async with _beside(work(self.settings, self.actors, asyncio.Event(), lambda: None, quiet_log())):
            yield


@asynccontextmanager
async def _beside(part: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(part)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(params=["quorum", "classic"])
async def scene(request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    require_rabbitmq()
    for interval in ("EVERY", "SOON"):
        monkeypatch.setattr(missing, interval, 0.2)
    made = Scene(tmp_path, request.param)
    yield made
    await clear(URL, made.settings.broker_prefix, [INBOX, WRITE, JUDGE, TAKEN])


async def test_a_request_that_was_lost_is_sent_again_and_worked_on_once(scene: Scene) -> None:
    async with asyncio.timeout(WITHIN), scene.coordinator(), open_client(scene.settings) as client:
        run = await client.submit(scene.workflow, "a text")
        await scene.waiting(WRITE, 1)
        await scene.purge(WRITE)
        async with scene.worker():
            while not scene.calls:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.02)
            scene.go.set()
            await client.wait(run)
        events = [event.data for event in await client.history(run)]
    assert scene.calls == ["write", "judge"]
    assert [each.attempt for each in events if isinstance(each, StepRequested)] == [1, 1]
    assert not any(isinstance(each, StepFailed) for each in events)


async def test_what_is_lost_of_one_actor_is_sent_again_while_the_queue_of_another_cannot_be_used(scene: Scene) -> None:
    """The search ended where the first request waits that no queue takes: all later ones waited for their deadline."""

    @generator
    async def taken(brief):
        return "never asked"

    await scene.take_away(TAKEN)
    async with asyncio.timeout(WITHIN), scene.coordinator(), open_client(scene.settings) as client:
        await client.submit(Workflow("beside").start_with(taken), "a text")
        run = await client.submit(scene.workflow, "a text")
        await scene.waiting(WRITE, 1)
        await scene.purge(WRITE)
        scene.go.set()
        async with scene.worker():
            await client.wait(run)
    assert scene.calls == ["write", "judge"]


async def test_an_answer_that_was_lost_while_no_coordinator_was_there_is_made_once_more(scene: Scene) -> None:
    async with asyncio.timeout(WITHIN), open_client(scene.settings) as client, scene.worker():
        async with scene.coordinator():
            run = await client.submit(scene.workflow, "a text")
            while not scene.calls:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.02)
        scene.go.set()
        await scene.lose_answer()
        async with scene.coordinator():
            await client.wait(run)
        events = [event.data for event in await client.history(run)]
    assert scene.calls == ["write", "write", "judge"]
    assert [each.attempt for each in events if isinstance(each, StepRequested)] == [1, 1]
    assert isinstance(events[-1], RunEnded)
