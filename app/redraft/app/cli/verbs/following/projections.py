"""`redraft projections`: the read models that there are, how far each is, what is in them; and `rebuild`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec
import typer

from redraft.app.cli.shared.exit_codes import FAILED
from redraft.app.cli.shared.options import JsonLogOption, JsonOption, StoreOption, refuse_beyond
from redraft.app.cli.shared.output import print_json, print_line, print_result, print_wrapped
from redraft.app.cli.shared.reading import ask, existing_store, refuse_missing
from redraft.app.cli.shared.tables import print_table
from redraft.app.process.lifecycle import retry_forever, together
from redraft.app.process.logs import shown_url
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.wiring.local import LocalRuntime
from redraft.app.wiring.parts import log_notice
from redraft.app.wiring.stores import open_store_of, open_views_of
from redraft.app.workflows.actor_registry import projections_for
from redraft.events.errors import InputError
from redraft.projections.display import counted
from redraft.projections.engine import projector
from redraft.projections.engine.projection import Projection, Table
from redraft.projections.engine.states import State
from redraft.projections.engine.storage import Cells

if TYPE_CHECKING:
    from redraft.app.cli.serving.serve import Serving

APP: Final = typer.Typer(
    help="List the read models, show what is in them, follow the log with your own, or drop one.",
    epilog="Example: redraft projections show mine.py:words",
)

TargetArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="PROJECTION", help="A shipped one by its name, or your own as file.py:name.")
]


@APP.command("list", epilog="Example: redraft projections list --json")
def list_(store: StoreOption = None, json: JsonOption = False) -> int:
    """List the projections: version, position, how many events behind, rows, and state.

    A projection that no process follows is brought up to date when it is read. Exit code 1: one has stopped.
    """
    settings = existing_store(store)
    head, states = asyncio.run(_read_states(settings))
    result = [{"behind": max(head - each.position, 0), **msgspec.structs.asdict(each)} for each in states]
    if json:
        print_json(result)
    elif not states:
        print_line("there are no projections yet; redraft rebuild makes them")
    else:
        for each in states:
            print_wrapped(_state_line(each, head), indent=15)
    return FAILED if any(each.failed or (each.building and each.building.failed) for each in states) else 0


@APP.command("show", epilog="Example: redraft projections show mine.py:words --limit 10")
def show(
    projection: TargetArgument,
    table: Annotated[str, typer.Option(help="Only this table of it.")] = "",
    limit: Annotated[
        int, typer.Option(callback=refuse_beyond, metavar="N", help="Print at most N rows of each table.", min=1)
    ] = 50,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show the rows of a projection, brought up to date first, in the order of their keys."""
    chosen = projections_for(projection)
    tables = {each.name: (one, each) for one in chosen for each in one.tables}
    if table and table not in tables:
        raise InputError(f"--table {table}: {projection} has no such table; there are {', '.join(tables)}")
    shown = [tables[table]] if table else list(tables.values())
    found = ask(store, lambda log: _read_rows(log, shown, limit))
    if json:
        print_json({name: [dict(zip(columns, row, strict=True)) for row in rows] for name, columns, rows in found})
        return
    for name, columns, rows in found:
        _print(name, columns, rows)


@APP.command("follow", epilog="Example: redraft projections follow mine.py:words")
def follow(projection: TargetArgument, store: StoreOption = None, json: JsonLogOption = False) -> int:
    """Keep a projection of your own up to date while runs go on, until Ctrl-C.

    Any number of processes may do so at once. Its file is run, so name only files that you trust.
    """
    from redraft.app.cli.serving.serve import serve

    settings = read_settings(store=store, log_format="json" if json else None)
    refuse_missing(settings.store)
    chosen = projections_for(projection)

    async def part(serving: Serving) -> None:
        await _follow(settings, chosen, serving)

    names = [each.name for each in chosen]
    return serve(settings, "projections", part, tied=False, store=shown_url(settings.store), projections=names)


@APP.command("drop", epilog="Example: redraft projections drop words")
def drop(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `list` shows it.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Take away the rows of a projection that you no longer keep. The log is not touched."""
    settings = existing_store(store)
    asyncio.run(_drop(settings, name))
    print_result({"dropped": name}, [f"the projection {name!r} was dropped"], json=json)


async def _read_states(settings: Settings) -> tuple[int, tuple[State, ...]]:
    async with open_store_of(settings) as store, open_views_of(settings, ()) as views:
        return await store.head(), await views.states()


async def _drop(settings: Settings, name: str) -> None:
    async with open_views_of(settings, ()) as views:
        await views.drop(name)


async def _read_rows(
    log: LocalRuntime, tables: Sequence[tuple[Projection, Table]], limit: int
) -> list[tuple[str, tuple[str, ...], list[Cells]]]:
    models = log.models
    return [(table.name, tuple(table.columns), await models.rows(each, table, limit)) for each, table in tables]


async def _follow(settings: Settings, chosen: Sequence[Projection], serving: Serving) -> None:
    notify = partial(log_notice, serving.log)
    async with (
        open_store_of(settings) as store,
        open_views_of(settings, chosen, notify) as views,
        together([retry_forever("projector", partial(projector.follow, views, store), serving.log)]) as tasks,
    ):
        serving.ready()
        draining = asyncio.create_task(serving.drain.wait())
        await asyncio.wait({draining, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        draining.cancel()


def _state_line(state: State, head: int) -> str:
    rows = ", ".join(f"{name} {count:,}" for name, count in state.rows.items())
    behind = head - state.position
    how = f"{behind:,} events behind" if behind > 0 else "up to date"
    if state.failed:
        how = f"STOPPED at event {state.failed:,}: {state.error}"
    line = f"{state.name:<14} version {state.version}  position {state.position:,}  {how}; rows: {rows}"
    if built := state.building:
        where = f"STOPPED at event {built.failed:,}: {built.error}" if built.failed else f"at {built.position:,}"
        line += f"; version {built.version} is being built beside it, {where}"
    return line


def _print(name: str, columns: Sequence[str], rows: Sequence[Cells]) -> None:
    print_line(f"{name}: {counted(len(rows), 'row')}")
    if rows:
        print_table(columns, rows, longest=80)
