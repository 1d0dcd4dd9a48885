"""What open pages are sent: a fragment once for all, and why there is none for as long as it cannot be made."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from redraft.app import open_local, read_settings
from redraft.app.dashboard import live
from redraft.app.dashboard.live import Broadcaster, Fragment, Subject
from redraft.app.process.logs import new_log
from redraft.app.server.leases import Leases
from redraft.app.server.offers import Offers
from redraft.app.server.service import Service
from redraft.events.errors import IncompatibleStore, StoreError


@asynccontextmanager
async def broadcasting() -> AsyncIterator[Broadcaster]:
    settings, log = read_settings(store="memory:"), new_log(sys.stderr, "json", "test")
    async with open_local(settings, ()) as runtime:
        leases = Leases(runtime.bus, 1_000, lambda: "a", log)
        yield Broadcaster(Service(settings, runtime, Offers({}, ()), None, None, leases, None, log))


async def test_all_who_look_are_sent_the_same_bytes() -> None:
    async def render() -> Callable[[], str]:
        return lambda: "<p>one</p>\n<p>two</p>"

    async with (
        broadcasting() as caster,
        aclosing(caster.watch("k", Subject(), render)) as one,
        aclosing(caster.watch("k", Subject(), render)) as other,
    ):
        first, second = await anext(one), await anext(other)
    assert first is second
    assert isinstance(first, Fragment)
    assert first.event.endswith(b"\ndata: <p>one</p>\ndata: <p>two</p>\n\n")


async def test_who_looks_is_told_why_nothing_can_be_shown_and_when_it_can_again() -> None:
    faults = [StoreError("the store does not answer")]

    async def render() -> Callable[[], str]:
        if faults:
            raise faults.pop()
        return lambda: "<p>there</p>"

    async with broadcasting() as caster, aclosing(caster.watch("k", Subject(every=0.01), render)) as looking:
        told, shown = await anext(looking), await anext(looking)
    assert isinstance(told, Fragment)
    assert isinstance(shown, Fragment)
    assert told.event.startswith(b"event: trouble\n")
    assert b"data: the store does not answer\n" in told.event
    assert shown.event.startswith(b"event: fragment\n")


async def test_who_looks_at_what_does_not_change_has_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEARTBEAT", 0.01)

    async def render() -> Callable[[], str]:
        return lambda: "<p>there</p>"

    async with broadcasting() as caster, aclosing(caster.watch("k", Subject(), render)) as looking:
        assert [await anext(looking) is None for _ in range(3)] == [False, True, True]


class SlowRows:
    """A log, and read models that count its events when they are told to."""

    def __init__(self) -> None:
        self.store = self.views = self
        self.batches = asyncio.Queue[list[SimpleNamespace]]()
        self.position = 0
        self._moved = asyncio.Event()

    async def head(self) -> int:
        return 0

    async def tail(self, _after: int) -> AsyncGenerator[list[SimpleNamespace], None]:
        while True:
            yield await self.batches.get()

    def record(self, position: int) -> None:
        self.batches.put_nowait([SimpleNamespace(run="r", position=position)])

    def count(self, position: int) -> None:
        self.position = position
        self._moved.set()
        self._moved = asyncio.Event()

    async def changed(self, _seen: int) -> int:
        await self._moved.wait()
        return self.position


async def test_of_events_that_are_counted_one_after_the_other_each_is_shown_once_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "INTERVAL", 0.0)
    rows, log = SlowRows(), new_log(sys.stderr, "json", "test")
    service = SimpleNamespace(runtime=rows, closing=asyncio.Event(), log=log)

    async def render() -> Callable[[], str]:
        return partial("<p>{}</p>".format, rows.position)

    async with aclosing(Broadcaster(cast("Service", service)).watch("k", Subject(), render)) as looking:
        seen = []
        for counted in range(4):
            if counted == 1:
                for position in (1, 2, 3):
                    rows.record(position)
            rows.count(counted)
            async with asyncio.timeout(30):
                shown = await anext(looking)
            assert isinstance(shown, Fragment)
            seen.append(shown.event.partition(b"<p>")[2][:1])
    assert seen == [b"0", b"1", b"2", b"3"]


async def test_who_looks_is_told_that_the_read_models_are_away_and_sees_them_again() -> None:
    away = 0

    async def changed(seen: int) -> int:
        nonlocal away
        away += 1
        raise StoreError("the server closed the connection")

    async def render() -> Callable[[], str]:
        return lambda: "<p>there</p>"

    async with asyncio.timeout(60), broadcasting() as caster:
        runtime = caster._service.runtime
        views = SimpleNamespace(position=0, changed=changed)
        service = cast(
            "Service",
            SimpleNamespace(
                runtime=SimpleNamespace(store=runtime.store, views=views),
                closing=asyncio.Event(),
                log=caster._service.log,
            ),
        )
        broken = Broadcaster(service)
        async with aclosing(broken.watch("k", Subject(), render)) as looking:
            assert isinstance(shown := await anext(looking), Fragment)
            broken._channels["k"].touch(5)
            assert isinstance(told := await anext(looking), Fragment)
            views.position = 5
            assert isinstance(again := await anext(looking), Fragment)
    assert away
    assert told.event.startswith(b"event: trouble\n")
    assert again.event == shown.event


async def test_a_log_that_cannot_be_followed_for_good_is_looked_at_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = 0

    async def render() -> Callable[[], str]:
        nonlocal made
        made += 1
        return lambda number=made: f"<p>{number}</p>"  # type: ignore[misc]

    async def not_followed(self: Broadcaster) -> None:
        raise IncompatibleStore("it is another log")

    monkeypatch.setattr(live, "UNFOLLOWED", 0.01)
    monkeypatch.setattr(Broadcaster, "_follow", not_followed)
    async with (
        asyncio.timeout(60),
        broadcasting() as caster,
        aclosing(caster.watch("k", Subject(), render)) as looking,
    ):
        shown = [each for _ in range(3) if isinstance(each := await anext(looking), Fragment)]
    assert len({each.id for each in shown}) == 3
