"""Two who submit with one key while the store is away: the run is worked on, whichever of them is told of the error."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from redraft.actors import Workflow, generator
from redraft.actors.runtime.relaying.relay import Relay
from redraft.app.runs.refine import refine_on
from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import _LocalParts, open_local
from redraft.events.errors import StoreError


@generator
def write(brief):
    return brief.text


PLAIN = Workflow("plain").start_with(write)


async def test_a_run_is_worked_on_though_the_store_was_away_for_the_first_who_submitted_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resend, looking, away = Relay.resend, asyncio.Event(), asyncio.Event()

    async def interrupted(self: Relay, run: str, sent: int) -> None:
        if looking.is_set():
            await resend(self, run, sent=sent)
            return
        looking.set()
        await away.wait()
        raise StoreError("connection cut")

    monkeypatch.setattr(Relay, "resend", interrupted)
    settings = Settings(store=f"sqlite:///{tmp_path / 'store.db'}")
    async with open_local(settings, [write]) as runtime, asyncio.timeout(60):
        owner = runtime.client._owner
        assert owner is not None
        first = asyncio.create_task(owner.adopt("k1", True))
        await looking.wait()
        second = asyncio.create_task(owner.adopt("k1", True))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not second.done(), "it would send the run's start, and the first would leave the run to nobody"
        away.set()
        with pytest.raises(StoreError, match="connection cut"):
            await first
        await second
        assert (await refine_on(runtime.client, PLAIN, "Tides", key="k")).outcome == "accepted"


async def test_a_run_that_has_ended_is_not_worked_on_again(tmp_path: Path) -> None:
    settings = Settings(store=f"sqlite:///{tmp_path / 'store.db'}")
    async with open_local(settings, [write]) as runtime, asyncio.timeout(60):
        owner = runtime.client._owner
        assert isinstance(owner, _LocalParts)
        for _ in range(2):
            assert (await refine_on(runtime.client, PLAIN, "Tides", key="k")).outcome == "accepted"
        assert not owner._owned, "each look at the timers would cost more"
