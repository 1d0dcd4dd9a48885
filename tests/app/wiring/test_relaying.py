"""What a coordinator leaves behind when its store fails in the moment in which it begins to relay."""

from __future__ import annotations

import asyncio
import gc
import io
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from redraft.app.process.logs import new_log
from redraft.app.settings.settings import read_settings
from redraft.app.wiring.coordinating import Relaying
from redraft.events.backends import open_lease
from redraft.events.errors import StoreError


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
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(StoreError, match="the disk is full"):
            await Relaying(servers, lost, new_log(io.StringIO(), "json", "coordinator"), 0).run()
        gc.collect()
    assert [str(each.message) for each in told] == []
