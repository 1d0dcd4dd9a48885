"""What one coordinator at a time does for all runs: when it begins, and what it leaves behind when its store fails."""

from __future__ import annotations

import asyncio
import gc
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.app.subscribers import write_run

from redraft.actors.runtime.coordinating.answer_routes import AnswerRoutes
from redraft.actors.values import ignore
from redraft.app.process.lifecycle import together
from redraft.app.process.logs import new_log
from redraft.app.settings.settings import read_settings
from redraft.app.wiring.coordinating import Relaying
from redraft.app.wiring.dead_letter_replies import DeadLetterReplies
from redraft.app.wiring.parts import Resources
from redraft.app.wiring.stores import open_store_of, open_views_of
from redraft.events.backends import open_lease
from redraft.events.bus.local import LocalBus
from redraft.events.errors import StoreError
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import RunFacts
from redraft.events.rabbit.topology import Kind

DEADLINE = 45.0


class Announcing(LocalBus):
    """A bus with a topic of events that nobody reads, and no dead letter."""

    async def publish_events(self, events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> None:
        """Drops the events."""

    def reconnects(self, tell: Callable[[], None]) -> AbstractContextManager[None]:
        return nullcontext()

    async def none(self) -> int:
        return 0

    async def fits(self, queue: str, kind: Kind) -> bool:
        return True


class Failing:
    """A store whose disk is full once the relay has looked at it for the first time."""

    where = "here"

    def __init__(self) -> None:
        self.looks = 0

    async def head(self) -> int:
        self.looks += 1
        if self.looks > 1:
            raise StoreError("the disk is full")
        return 0


async def test_a_store_that_fails_leaves_no_coroutine_that_nobody_awaited(tmp_path: Path) -> None:
    """Python would write a warning of each to standard error, in the middle of a JSON log."""
    settings = read_settings(store=f"sqlite:///{tmp_path / 'log.db'}")
    async with open_lease(settings.store) as before:
        await before.acquire()
    resources: Any = SimpleNamespace(settings=settings, store=Failing(), bus=None, views=None)
    servers = cast("Any", SimpleNamespace(resources=resources, bus=SimpleNamespace(), survey=SimpleNamespace()))
    lost = cast("Any", SimpleNamespace(run=asyncio.sleep))
    gc.collect()  # what other tests of this process left behind is told of elsewhere
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(StoreError, match="the disk is full"):
            await Relaying(servers, lost, new_log(io.StringIO(), "json", "coordinator"), 0, AnswerRoutes(0)).run()
        gc.collect()
    assert [str(each.message) for each in told] == []


async def test_only_who_relays_keeps_the_read_models(tmp_path: Path) -> None:
    settings = read_settings(store=f"sqlite:///{tmp_path / 'log.db'}")
    said = io.StringIO()
    async with (
        asyncio.timeout(DEADLINE),
        open_store_of(settings) as store,
        open_views_of(settings) as views,
        open_lease(settings.store) as holds,
    ):
        await holds.acquire()
        await write_run(store, "tides", 3)
        bus = Announcing()
        resources = Resources(settings, store, views, cast("Any", None), bus)
        servers = cast("Any", SimpleNamespace(resources=resources, bus=bus, survey=bus, count_dead_letters=bus.none))
        lost = DeadLetterReplies(store, bus, str, ignore)
        async with together([Relaying(servers, lost, new_log(said, "json", "coordinator"), 0, AnswerRoutes(0)).run()]):
            while "standing by" not in said.getvalue():  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert await views.refresh() == 0, "the one that relays keeps them"
            await holds.release()
            assert await views.wait_for(3) == 3
