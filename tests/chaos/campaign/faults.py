"""What is done to a deployment at work: each function brings about one fault, and returns when its cause is over."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Final

import aio_pika
from tests.chaos.campaign.deployment import Program
from tests.chaos.campaign.scene import Scene
from tests.chaos.campaign.servers import full
from tests.events.rabbit_node import RabbitNode
from tests.proxy import Proxy

from redraft.events.bus.port import INBOX, BusMessage
from redraft.events.errors import BusError
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.bus import RabbitBus

Fault = Callable[[Scene], Awaitable[None]]

SETTLED: Final = 5.0
"""Seconds that a quorum queue of a single node takes until it outlives kill -9."""

AWAY: Final = 20.0
"""Seconds in which an answer to a commit is to come, so that it can be swallowed."""

FULL: Final = 10.0
"""Seconds for which a disk is full."""

JUMP: Final = 120.0
"""Seconds by which a clock is out."""

SERVES: Final = 120.0
"""Seconds within which a process that was started serves, on a machine that is busy with something else."""

KEPT: Final = 10.0
"""Seconds within which a broker that works confirms a message."""

_BROKEN: Final = re.compile(r"quorum queue '%2F_(\S+)' could not be restarted")

DUMPED: Final = 20.0
"""Seconds within which a broker that cannot go on after its disk was full answers no more."""


async def kill_worker(scene: Scene) -> None:
    await _kill(scene, scene.chance.choice(scene.deployment.of("worker")))


async def kill_coordinator(scene: Scene) -> None:
    """The one that relays, in two of three cases."""
    relaying = await asyncio.to_thread(scene.deployment.relaying)
    any_of = scene.chance.choice(scene.deployment.of("coordinator"))
    await _kill(scene, any_of if scene.chance.random() < 0.33 else relaying)


async def kill_broker(scene: Scene) -> None:
    await asyncio.sleep(SETTLED)
    await asyncio.to_thread(scene.servers.node.kill)
    await scene.servers.node.restart()


async def kill_store(scene: Scene) -> None:
    await asyncio.to_thread(scene.servers.cluster.kill)
    await asyncio.to_thread(scene.servers.cluster.start)


async def wipe_broker(scene: Scene) -> None:
    """Its data is gone, and no operator sends again what is open: the coordinator that relays does."""
    await asyncio.to_thread(scene.servers.node.kill)
    await asyncio.to_thread(scene.servers.node.wipe)
    await scene.servers.node.restart()
    scene.people.emptied()


async def swallow_commit_and_cut(scene: Scene) -> None:
    await _swallow(scene, keep=False)


async def swallow_commit_and_keep(scene: Scene) -> None:
    await _swallow(scene, keep=True)


async def cut(scene: Scene) -> None:
    _way(scene).cut(scene.chance if scene.chance.random() < 0.7 else None)


async def half_close(scene: Scene) -> None:
    _way(scene).half_close(scene.chance)


async def freeze_worker(scene: Scene) -> None:
    await _held(scene.chance.choice(scene.deployment.of("worker")).frozen(), scene.freeze)


async def freeze_coordinator(scene: Scene) -> None:
    relaying = await asyncio.to_thread(scene.deployment.relaying)
    await _held(relaying.frozen(), scene.freeze)


async def freeze_broker(scene: Scene) -> None:
    await _held(scene.servers.node.frozen(), scene.freeze)


async def freeze_store(scene: Scene) -> None:
    await _held(scene.servers.cluster.frozen(), scene.freeze)


async def freeze_way(scene: Scene) -> None:
    """The network passes nothing on to one of the servers, and says nothing of it."""
    with _way(scene).frozen():
        await asyncio.sleep(scene.freeze)


async def fill_broker(scene: Scene) -> None:
    """An operator starts it again, once there is space, where it ended for that, keeps nothing any more or goes on
    without some of its queues, and deletes the queues that it cannot start. What people said, and nothing came of, they
    say again.
    """
    node = scene.servers.node
    await _held(full(scene.servers.places["broker"]), FULL)
    if not await _outlives(node):
        scene.notes["broker ended on a full disk"] += 1
    elif not await _keeps(node):
        scene.notes["broker kept nothing any more after a full disk"] += 1
    elif await asyncio.to_thread(node.dead_queues):
        scene.notes["broker went on without some queues after a full disk"] += 1
    else:
        return
    if node.runs():
        await asyncio.to_thread(node.kill)
    before = len(node.log())
    await node.restart()
    scene.people.emptied()
    for queue in _BROKEN.findall(node.log()[before:]):
        scene.notes["a queue was damaged by it, and deleted"] += 1
        async with await aio_pika.connect(node.url) as connection, connection.channel() as channel:
            await channel.queue_delete(queue)


async def fill_store(scene: Scene) -> None:
    await _held(full(scene.servers.places["store"]), FULL)
    if not scene.servers.cluster.runs():
        scene.notes["PostgreSQL ended on a full disk"] += 1
    await asyncio.to_thread(scene.servers.cluster.start)


async def clock_ahead(scene: Scene) -> None:
    await _jump(scene, JUMP)


async def clock_behind(scene: Scene) -> None:
    await _jump(scene, -JUMP)


def _way(scene: Scene) -> Proxy:
    """The way to one of the servers."""
    return scene.chance.choice((scene.servers.broker, scene.servers.store))


async def _jump(scene: Scene, seconds: float) -> None:
    """The clock of who reads it from a file jumps, and 20 seconds later back."""
    scene.clocks = JUMP
    scene.clock.write_text(f"{seconds:+g}s\n")
    await asyncio.sleep(20)
    scene.clock.write_text("+0s\n")


async def _kill(scene: Scene, program: Program) -> None:
    """Kills a process that serves: one that is killed again and again while it starts does nothing at all."""
    await scene.until(f"{program.name} serves", program.serves, SERVES)
    await asyncio.to_thread(program.replace)


async def _held(held: AbstractContextManager[None], seconds: float) -> None:
    await asyncio.to_thread(held.__enter__)
    try:
        await asyncio.sleep(seconds)
    finally:
        await asyncio.to_thread(held.__exit__, None, None, None)


async def _outlives(node: RabbitNode) -> bool:
    """Whether a broker answers some time after its disk was full. One that cannot go on writes a dump, and ends."""
    end = time.monotonic() + DUMPED
    while node.runs() and (time.monotonic() < end or not await asyncio.to_thread(node.answers)):  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    return node.runs()


async def _keeps(node: RabbitNode) -> bool:
    """Whether a broker keeps what is put into a queue: its quorum queues may have ended, and the rest of it not."""
    try:
        async with RabbitBus(node.url, prefix="campaign", patience=KEPT) as bus:
            await bus.publish(INBOX, [BusMessage("campaign", b"{}", Origin("campaign", "campaign"))])
    except BusError:
        return False
    return True


async def _swallow(scene: Scene, *, keep: bool) -> None:
    try:
        async with asyncio.timeout(AWAY):
            await scene.servers.store.swallow(keep=keep)
    except TimeoutError:
        scene.notes["no commit to swallow"] += 1
