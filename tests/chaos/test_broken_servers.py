"""`redraft up` on RabbitMQ and PostgreSQL, the servers stopped, killed or emptied while it works."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from tests.chaos.histories import STEPS, doubles, require_whole
from tests.chaos.scene import Scene

from redraft.events.rabbit.topology import Kind

RUNS = 200
OUTAGE = 20.0
"""Seconds for which a stopped broker is away."""

SETTLED = 5.0
"""Seconds after which a quorum queue of a single node outlives kill -9; before about 3 it may lose its leader."""


async def broker_stopped(there: Scene) -> None:
    await asyncio.to_thread(there.node.stop)
    await asyncio.sleep(OUTAGE)  # not to wait for something: so long it is away
    await there.node.restart()


async def broker_killed(there: Scene) -> None:
    await asyncio.to_thread(there.node.kill)
    await there.node.restart()


async def broker_emptied(there: Scene) -> None:
    """Nobody sends again what is open but the coordinator."""
    await asyncio.to_thread(there.node.kill)
    await asyncio.to_thread(there.node.wipe)
    await there.node.restart()


async def store_killed(there: Scene) -> None:
    await asyncio.to_thread(there.cluster.kill)
    await asyncio.to_thread(there.cluster.start)


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("broken", "queues"),
    [
        *((each, "quorum") for each in (broker_stopped, broker_killed, broker_emptied, store_killed)),
        *((each, "classic") for each in (broker_stopped, broker_killed, broker_emptied)),
    ],
)
async def test_all_runs_end_though_a_server_breaks(
    there: Scene, broken: Callable[[Scene], Awaitable[None]], queues: Kind, tell: Callable[[str], None]
) -> None:
    there.queues = queues
    await there.up()
    made = time.monotonic()
    await there.until("the queues are safe", lambda: time.monotonic() - made > SETTLED)
    began = time.monotonic()
    submitted = await there.submit(RUNS)
    total = (RUNS + 1) * len(STEPS)
    await there.until("a part of it is done", lambda: len(there.worked()) > total // 4)
    await there.until("all are recorded", lambda: _runs_begun(there) > RUNS)
    before = len(there.worked())
    assert before < total, "it breaks while they are going"
    await broken(there)
    back = time.monotonic()
    await there.ended(submitted, 300)
    end = time.monotonic()
    await require_whole(there, submitted)
    [again] = doubles(there, [before])
    tell(
        f"{broken.__name__} ({queues} queues) after {before} of {total} steps: "
        f"{RUNS} runs ended {end - back:.1f} s after it was back, "
        f"{end - began:.1f} s after they were submitted; {again} pieces of work were done again"
    )


def _runs_begun(there: Scene) -> int:
    return len({line.split()[0] for line in there.worked()})
