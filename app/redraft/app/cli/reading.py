"""What verbs that only look have in common: the log is opened, asked, and closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from redraft.events.errors import InputError, StoreError

if TYPE_CHECKING:
    from redraft.app.compose import House
    from redraft.events.content import Draft
    from redraft.events.envelope import Recorded

T = TypeVar("T")


def ask(store: str | None, question: Callable[[House], Awaitable[T]]) -> T:
    """The answer of an open log. Raises StoreError when there is no store yet: looking makes none."""
    import asyncio

    from redraft.app.compose import open_log
    from redraft.app.settings import read_settings

    settings = read_settings(store=store)
    refuse_missing(settings.store)

    async def asked() -> T:
        async with open_log(settings) as log:
            return await question(log)

    return asyncio.run(asked())


def refuse_missing(url: str) -> None:
    """Raises StoreError when a URL names a file that is not there."""
    scheme, _, path = url.partition(":///")
    if scheme == "sqlite" and path and not (Path(path).exists() and Path(path).stat().st_size):
        raise StoreError(f"there is no store {path} yet; `redraft run` makes it, or name another one with --store")


async def events_of(log: House, text: str, upto: int | None = None) -> tuple[Recorded, ...]:
    """The events of the run that a person means, up to a version. Raises NoSuchRun, and InputError for a version."""
    from redraft.projections.run_list import find_run

    found = await find_run(log.views, text)
    if upto is not None and not 1 <= upto <= found.version:
        raise InputError(f"--at {upto}: run {found.run} has {found.version} events; give 1 to {found.version}")
    return await log.client.history(found.run, upto)


def drafts_of(events: Sequence[Recorded]) -> dict[int, Draft]:
    """Every draft of a run by its number, in the order in which they were made."""
    from redraft.events.domain_events import DraftEdited, DraftGenerated, DraftRefined

    made = [event.data.draft for event in events if isinstance(event.data, DraftGenerated | DraftRefined | DraftEdited)]
    return {draft.version: draft for draft in made}
