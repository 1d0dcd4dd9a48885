"""The effects of a subscriber that is killed at random moments are exactly the events, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from tests.chaos.killed_subscriber import Subscriber, killed_while_they_write, write
from tests.events.postgres_cluster import Cluster

pytestmark = pytest.mark.check


def store_in(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    return f"sqlite:///{folder / 'log.db'}" if kind == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_subscriber_is_killed_while_eight_write(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    await killed_while_they_write(store_in(kind, request, tmp_path), tmp_path, 480, 6, tell, seed=1)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_subscriber_is_killed_two_hundred_times_while_eight_write_ten_thousand_events(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    again = await killed_while_they_write(store_in(kind, request, tmp_path), tmp_path, 10_000, 200, tell, seed=2)
    assert again, "no kill came between an effect and its position"


async def test_a_subscriber_goes_on_when_its_store_was_killed(tmp_path: Path, cluster: Cluster) -> None:
    url = cluster.new_database(f"notes_{uuid4().hex[:8]}")
    allowed = asyncio.Semaphore(40)
    await write(url, 0, 40, allowed)
    subscriber = Subscriber(tmp_path, url)
    try:
        subscriber.start()
        await subscriber.beyond(40)
        await asyncio.to_thread(cluster.kill)
        await subscriber.says("interrupted")
        await asyncio.to_thread(cluster.start)
        for _ in range(40):
            allowed.release()
        await write(url, 1, 40, allowed)
        await subscriber.beyond(80)
        assert [position for position, *_ in subscriber.effects()] == list(range(1, 81))
    finally:
        subscriber.stop()
