"""`redraft rebuild`: the read models made anew from the log."""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.options import JsonOption, StoreOption
from redraft.app.cli.output import print_json, print_line
from redraft.app.cli.reading import refuse_missing
from redraft.events.errors import StoreError

if TYPE_CHECKING:
    from redraft.app.settings import Settings
    from redraft.projections.projection import Table
    from redraft.projections.views import Views

EXAMPLE: Final = "Example: redraft rebuild runs"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was made anew. `same`: the rows are those that were there before; None when those could not be compared."""

    projections: tuple[str, ...]
    events: int
    seconds: float
    rows: dict[str, int]
    same: bool | None


def rebuild(
    projection: Annotated[
        str | None, typer.Argument(metavar="[PROJECTION]", help="runs or steps (default: all).", show_default=False)
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Make the read models anew from the log.

    They are dropped first; when it is done it says whether they are equal to what they were before.
    """
    import asyncio

    from redraft.app.settings import read_settings

    settings = read_settings(store=store)
    refuse_missing(settings.store)
    done = asyncio.run(_rebuilt(settings, projection))
    if json:
        print_json(done)
        return
    rows = ", ".join(f"{name} {count:,}" for name, count in done.rows.items())
    print_line(
        f"rebuilt {' and '.join(done.projections)} from {done.events:,} events in {done.seconds:.1f} s; rows: {rows}"
    )
    match done.same:
        case True:
            print_line("they are equal to the rows that were there before")
        case False:
            print_line("they differ from the rows that were there before; those were wrong or of an earlier version")
        case None:
            print_line("there were no rows before that could be compared")


async def _rebuilt(settings: Settings, name: str | None) -> Rebuilt:
    from redraft.app.compose import PROJECTIONS
    from redraft.app.encryption import store_of
    from redraft.app.settings import views_path
    from redraft.projections.projector import catch_up, rebuild
    from redraft.projections.views import open_views

    chosen = [each for each in PROJECTIONS if name in (None, each.name)]
    tables = [table for each in chosen for table in each.tables]
    async with (
        store_of(settings) as store,
        await open_views(views_path(settings.store), PROJECTIONS) as views,
    ):
        before: dict[str, tuple[int, str]] | None = None
        try:
            if views.position:
                await catch_up(views, store)
                before = await _digests(views, tables)
        except StoreError:
            pass  # damaged: there is nothing to compare with
        began = time.monotonic()
        events = await rebuild(views, store, name)
        seconds = time.monotonic() - began
        after = await _digests(views, tables)
    rows = {table: count for table, (count, _) in after.items()}
    same = None if before is None else before == after
    return Rebuilt(tuple(each.name for each in chosen), events, seconds, rows, same)


async def _digests(views: Views, tables: list[Table]) -> dict[str, tuple[int, str]]:
    """How many rows each table has, and the SHA-256 of them all in the order of their keys."""
    import msgspec

    found: dict[str, tuple[int, str]] = {}
    for table in tables:
        columns, keys = ", ".join(table.columns), ", ".join(table.keys)
        rows = await views.query(f"SELECT {columns} FROM {table.name} ORDER BY {keys}")  # noqa: S608
        digest = sha256()
        for row in rows:
            digest.update(msgspec.json.encode(row) + b"\n")
        found[table.name] = len(rows), digest.hexdigest()
    return found
