"""Positions of durable subscribers, parked events and who serves a name, as the databases keep them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from redraft.events.backends import open_store, open_subscriptions
from redraft.events.errors import InputError, LeaseLost, StoreError
from redraft.events.store.lease import LeaseHolder
from redraft.events.subscriptions.subscriptions import Failing, ParkedEvent, Subscriptions

DEADLINE: Final = 30


@pytest.fixture(params=["sqlite", "postgres"])
async def names(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subscriptions]:
    url = f"sqlite:///{tmp_path}/log.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    async with open_store(url), open_subscriptions(url) as opened:
        yield opened


async def test_who_stands_still_is_overtaken_at_a_name(names: Subscriptions, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sqlite.lease", "postgres.lease"):
        monkeypatch.setattr(f"redraft.events.{module}.LASTS", 0.05)
    monkeypatch.setattr("redraft.events.store.lease.RENEW", 0.01)
    async with asyncio.timeout(DEADLINE), names.lease("index") as first, names.lease("index") as second:
        await first.acquire()
        told: list[LeaseHolder] = []
        await second.acquire(told.append)
        assert all(each.since is not None for each in told)
        with pytest.raises(LeaseLost, match="another process has it now; this one stands by"):
            await first.keep()


async def test_nothing_is_moved_in_an_epoch_that_is_over(names: Subscriptions) -> None:
    mine = await names.take("index", "{}", "me", 0)
    theirs = await names.take("index", "{}", "them", 0)
    when = mine.created
    calls = [
        names.save(mine, 5),
        names.failed(mine, Failing(5, 1, "no", when)),
        names.park(mine, ParkedEvent("index", 5, "id", "a", 5, "run.started.v1", 1, "no", when)),
        names.asked_again(mine),
    ]
    for call in calls:
        with pytest.raises(LeaseLost, match="another process serves it now"):
            await call
    assert (await names.get("index")).position == 0
    assert await names.parked("index") == []
    await names.save(theirs, 4)
    await names.save(theirs, 3)
    found = await names.get("index")
    assert (found.position, found.target, found.epoch) == (4, "them", mine.epoch + 1)
    assert await names.remove("index")
    assert not await names.remove("index")
    with pytest.raises(InputError, match="no subscription is named 'index'"):
        await names.get("index")


def test_a_store_that_keeps_nothing_has_no_names() -> None:
    with pytest.raises(InputError, match="no subscription can have a name"):
        open_subscriptions("memory:")


async def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "log.subscriptions.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    before = other.read_bytes()
    async with open_subscriptions(f"sqlite:///{tmp_path / 'log.db'}") as names:
        with pytest.raises(
            StoreError, match=r"log.subscriptions.db: the file belongs to another program; move it away"
        ):
            await names.all()
    assert other.read_bytes() == before
