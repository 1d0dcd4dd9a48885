"""Reads a run together with the runs of its items."""

from __future__ import annotations

from collections.abc import Sequence

from redraft.app.subscribing.misfits import fitting
from redraft.events.errors import NoSuchRun
from redraft.events.messages.envelope import Recorded
from redraft.events.store.event_store import EventStore
from redraft.projections.run_views.tree_model import Tree
from redraft.projections.run_views.whole_tree import whole_tree


async def tree_with_items(store: EventStore, events: Sequence[Recorded], *, cut: bool) -> Tree:
    """Returns the tree of a run after these events, with those of its items' runs.

    With `cut` these are as they were at the time of the last of the events. An item's run that cannot be read to its
    end is shown as far as it can be. Raises StoreError.
    """

    async def read(run: str) -> Sequence[Recorded]:
        try:
            entries = await store.entries(run)
        except NoSuchRun:
            return ()
        known: list[Recorded] = []
        for entry in fitting(entries)[0]:
            if not isinstance(entry, Recorded):
                break
            known.append(entry)
        return known

    return await whole_tree(events, read, events[-1].time if cut and events else None)
