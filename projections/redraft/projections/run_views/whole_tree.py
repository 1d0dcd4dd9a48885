"""The tree of a run with, inside it, the trees of the runs of its items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from typing import TypeAlias

from redraft.events.messages.domain_events import ItemOf, RunStarted, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.item_ids import run_of_item
from redraft.projections.run_views.tree import tree
from redraft.projections.run_views.tree_model import Tree

ReadRun: TypeAlias = Callable[[str], Awaitable[Sequence[Recorded]]]
"""Returns the events of a run that can be read; none for a run that is not there."""


async def whole_tree(
    stream: Sequence[Recorded], read: ReadRun, until: datetime | None = None, around: frozenset[str] = frozenset()
) -> Tree:
    """Returns the tree of a run after these events, with those of its items' runs, `until` a time (UTC) or as they are.

    The run of an item that is not there has no tree, nor has one that is also one of the runs `around` it: nobody but a
    stranger records that.
    """
    inner: dict[str, Tree] = {}
    around |= {stream[0].run} if stream else set()
    for path, run in item_runs(stream):
        events = [event for event in await read(run) if until is None or event.time <= until]
        if events and run not in around:
            inner[path] = await whole_tree(events, read, until, around)
    return tree(stream, inner)


def item_runs(stream: Sequence[Recorded]) -> Iterator[tuple[str, str]]:
    """Yields the path of each item of a run that was asked for, and the id of its run: of a fork the latest of both.

    What a fork repeats was done by runs of its parent's items.
    """
    found: dict[str, str] = {}
    begun = stream[0].data if stream else None
    parent = begun.parent.run if isinstance(begun, RunStarted) and begun.parent is not None else ""
    for event in stream:
        if isinstance(event.data, StepRequested) and event.data.role == "run":
            path = event.data.path
            found[path] = run_of_item(ItemOf(parent if event.repeats else event.run, path))
    yield from found.items()
