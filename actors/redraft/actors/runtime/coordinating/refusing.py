"""Says why the erasure of a run, or the edit of a draft, cannot be recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from redraft.actors.deciding.state import RunState
from redraft.actors.runtime.coordinating.aggregates import Aggregate
from redraft.actors.values import shown
from redraft.events.messages.commands import EditDraft
from redraft.events.messages.domain_events import DraftEdited, DraftGenerated, DraftRefined
from redraft.events.messages.envelope import Recorded


class KeyedRuns(Protocol):
    """Reads the events of a run, and looks for its key."""

    async def read(self, run: str, upto: int | None = None, after: int = 0) -> Sequence[Recorded]: ...

    async def has_key(self, run: str) -> bool: ...


async def why_not_erased(log: KeyedRuns, run: str, aggregate: Aggregate) -> str:
    """Returns why the erasure of a run cannot be recorded: its texts can still be read; empty if they cannot."""
    if not aggregate.state.version:
        return ""
    if not aggregate.encrypted:
        return f"run {run} is not erased: it was recorded in the clear, and its texts can be read"
    if await log.has_key(run):
        return f"run {run} is not erased: its key is there; `redraft erase` deletes it, and then says so"
    return ""


async def why_not_edited(log: KeyedRuns, message: EditDraft, state: RunState) -> str:
    """Returns why an edit cannot be recorded: the draft that it changes never was; empty if there was such one."""
    before, made = message.before, (DraftGenerated, DraftRefined, DraftEdited)
    if state.status != "running" or (state.current is not None and state.current.ref == before):
        return ""
    if any(isinstance(e.data, made) and e.data.draft.ref == before for e in await log.read(message.run)):
        return ""
    return f"run {message.run} has no draft {before.version} with the hash {shown(before.sha256)} that could be edited"
