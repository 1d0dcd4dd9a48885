"""The events of a run that is looked at again and again: of each look only what has come since is read."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace
from tests.streams import article

from redraft.app.record.past import GrowingRun
from redraft.app.wiring.local import LocalRuntime
from redraft.events.errors import NoSuchRun
from redraft.events.messages.domain_events import RunErased
from redraft.events.messages.envelope import Entry, Recorded, Unreadable

STORY = article()


class KeptEntries:
    """A store of one run, which tells after which versions it was read."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.kept = list(entries)
        self.read: list[int] = []

    async def entries(self, run: str, upto: int | None = None, after: int = 0) -> tuple[Entry, ...]:
        self.read.append(after)
        return tuple(self.kept[after:upto])


def growing(store: KeptEntries) -> GrowingRun:
    return GrowingRun(cast("LocalRuntime", SimpleNamespace(store=store)), STORY[0].run)


def erasure(after: Recorded) -> Recorded:
    return replace(after, version=after.version + 1, position=after.position + 1, data=RunErased("ann"))


async def test_only_what_has_come_since_is_read() -> None:
    store = KeptEntries(STORY[:5])
    run = growing(store)
    assert await run.events() == STORY[:5]
    store.kept += STORY[5:8]
    assert await run.events() == STORY[:8]
    assert await run.events() == STORY[:8]
    assert store.read == [0, 5, 8]


async def test_once_a_run_was_erased_nothing_that_was_read_before_is_shown() -> None:
    store = KeptEntries(STORY[:5])
    run = growing(store)
    await run.events()
    blanked = [replace(each, actor="erased") for each in STORY[:5]]
    store.kept = [*blanked, erasure(STORY[4])]
    assert await run.events() == tuple(store.kept)
    assert await run.events() == tuple(store.kept)
    assert store.read == [0, 5, 0, 0]


async def test_what_follows_an_event_that_cannot_be_read_is_left_out() -> None:
    store = KeptEntries(STORY[:5])
    run = growing(store)
    await run.events()
    store.kept += [Unreadable(STORY[0].run, 6, 106, "no.such", "nothing can"), STORY[6]]
    assert await run.events() == STORY[:5]
    store.kept[5:] = STORY[5:7]
    assert await run.events() == STORY[:7]


async def test_there_has_to_be_a_run() -> None:
    with pytest.raises(NoSuchRun):
        await growing(KeptEntries(())).events()
