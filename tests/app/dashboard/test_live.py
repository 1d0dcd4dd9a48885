"""What open pages are sent: a fragment once for all, and why there is none for as long as it cannot be made."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

import pytest

from redraft.app import open_local, read_settings
from redraft.app.dashboard import live
from redraft.app.dashboard.live import Broadcaster, Fragment, Subject
from redraft.app.process.logs import new_log
from redraft.app.server.leases import Leases
from redraft.app.server.offers import Offers
from redraft.app.server.service import Service
from redraft.events.errors import StoreError


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
