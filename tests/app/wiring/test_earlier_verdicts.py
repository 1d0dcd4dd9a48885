"""A recorded verdict that cannot be taken again, whatever is wrong with its run, only means that a critic is asked."""

from __future__ import annotations

import asyncio

import pytest

from redraft.app.wiring import earlier_verdicts
from redraft.app.wiring.earlier_verdicts import EarlierVerdicts
from redraft.events.backends import open_store
from redraft.events.errors import CodecError, StoreError, UnknownRules
from redraft.events.messages.domain_events import EventRef
from redraft.projections.backends import ReadModels
from redraft.projections.engine.views import Views


@pytest.mark.parametrize("error", [StoreError("away"), CodecError("torn"), UnknownRules(99)])
async def test_a_run_that_cannot_be_read_has_no_verdict_to_give(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def found(views: Views, key: str) -> list[EventRef]:
        return [EventRef("of a later release", 7)]

    async def is_imported(run: str) -> bool:
        raise error

    monkeypatch.setattr(earlier_verdicts, "verdicts", found)
    async with open_store("memory:") as store, ReadModels(None, store) as models:
        given = EarlierVerdicts(models, is_imported)
        reading = asyncio.create_task(given.run())
        assert await given("key") == ()
        reading.cancel()
