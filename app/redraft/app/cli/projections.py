"""`redraft projections`: the read models that there are, how far each is, and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from redraft.app.cli.faults import FAILED
from redraft.app.cli.options import JsonLogOption, JsonOption, StoreOption
from redraft.app.cli.output import out, print_json, print_line, table_of
from redraft.app.cli.reading import ask, refuse_missing
from redraft.events.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redraft.app.cli.process import Serving
    from redraft.app.compose import House
    from redraft.app.settings import Settings
    from redraft.projections.place import Cells
    from redraft.projections.projection import Projection, Table
    from redraft.projections.states import State

APP: Final = typer.Typer(
    help="List the read models, show what is in them, follow the log with your own, or drop one.",
    no_args_is_help=False,
    rich_markup_mode=None,
    epilog="Example: redraft projections show mine.py:words",
)

TargetArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="PROJECTION", help="A shipped one by its name, or your own as file.py:name.")
]


@APP.command("list")
def list_(store: StoreOption = None, json: JsonOption = False) -> int:
    """List the projections: version, position, how many events behind, rows, and how they are.

    Those that nobody follows are brought up to date when they are asked for. Exit code 1: one has stopped.
    """
    import asyncio

    from redraft.app.settings import read_settings

    settings = read_settings(store=store)
    refuse_missing(settings.store)
    head, states = asyncio.run(_states(settings))
    if json:
        import msgspec

        print_json([{"behind": max(head - each.position, 0), **msgspec.structs.asdict(each)} for each in states])
    for each in () if json else states:
        print_line(_told(each, head))
    if not (states or json):
        print_line("there are no projections yet; redraft rebuild makes them")
    return FAILED if any(each.failed or (each.building and each.building.failed) for each in states) else 0


@APP.command("show")
def show(
    projection: TargetArgument,
    table: Annotated[str, typer.Option(help="Only this table of it.")] = "",
    limit: Annotated[int, typer.Option(help="At most so many rows of each table.", min=1)] = 50,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show the rows of a projection, brought up to date first, in the order of their keys."""
    from redraft.app.chosen import projections_for

    chosen = projections_for(projection)
    tables = {each.name: (one, each) for one in chosen for each in one.tables}
    if table and table not in tables:
        raise InputError(f"--table {table}: {projection} has no such table; there are {', '.join(tables)}")
    wanted = [tables[table]] if table else list(tables.values())
    found = ask(store, lambda log: _rows(log, wanted, limit))
    if json:
        print_json({name: [dict(zip(columns, row, strict=True)) for row in rows] for name, columns, rows in found})
        return
    for name, columns, rows in found:
        _print(name, columns, rows)


@APP.command("follow")
def follow(projection: TargetArgument, store: StoreOption = None, json: JsonLogOption = False) -> int:
    """Keep a projection of your own up to date while runs go on, until Ctrl-C.

    Any number of processes may do so at once. Its file is run, so name only files that you trust.
    """
    from redraft.app.chosen import projections_for
    from redraft.app.cli.process import serve
    from redraft.app.settings import read_settings, shown_url

    settings = read_settings(store=store, log="json" if json else None)
    refuse_missing(settings.store)
    chosen = projections_for(projection)

    async def part(serving: Serving) -> None:
        await _followed(settings, chosen, serving)

    names = [each.name for each in chosen]
    return serve(settings, "projections", part, tied=False, store=shown_url(settings.store), projections=names)


@APP.command("drop")
def drop(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `list` shows it.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Take away the rows of a projection that you no longer keep. The log is not touched."""
    import asyncio

    from redraft.app.settings import read_settings

    settings = read_settings(store=store)
    refuse_missing(settings.store)
    asyncio.run(_dropped(settings, name))
    if json:
        print_json({"dropped": name})
    else:
        print_line(f"the projection {name!r} was dropped")


async def _states(settings: Settings) -> tuple[int, tuple[State, ...]]:
    from redraft.app.encryption import store_of
    from redraft.app.settings import views_path
    from redraft.projections.views import open_views

    async with store_of(settings) as store, await open_views(views_path(settings.store), ()) as views:
        return await store.head(), await views.states()


async def _dropped(settings: Settings, name: str) -> None:
    from redraft.app.settings import views_path
    from redraft.projections.views import open_views

    async with await open_views(views_path(settings.store), ()) as views:
        await views.drop(name)


async def _rows(
    log: House, wanted: Sequence[tuple[Projection, Table]], limit: int
) -> list[tuple[str, tuple[str, ...], list[Cells]]]:
    found: list[tuple[str, tuple[str, ...], list[Cells]]] = []
    for projection, table in wanted:
        views = await log.models.of(projection)
        columns = tuple(table.columns)
        sql = f"SELECT {', '.join(columns)} FROM {table.name} ORDER BY {', '.join(table.keys)} LIMIT ?"  # noqa: S608
        found.append((table.name, columns, await views.query(sql, (limit,))))
    return found


async def _followed(settings: Settings, chosen: Sequence[Projection], serving: Serving) -> None:
    import asyncio
    from functools import partial

    from redraft.app.encryption import store_of
    from redraft.app.narration import tell_of_projection
    from redraft.app.settings import views_path
    from redraft.app.together import together
    from redraft.app.upkeep import kept_up
    from redraft.projections.projector import follow
    from redraft.projections.views import open_views

    told = partial(tell_of_projection, serving.log)
    async with (
        store_of(settings) as store,
        await open_views(views_path(settings.store), chosen, told) as views,
        together([kept_up("projector", partial(follow, views, store), serving.log)]) as tasks,
    ):
        serving.ready()
        draining = asyncio.create_task(serving.drain.wait())
        await asyncio.wait({draining, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        draining.cancel()


def _told(state: State, head: int) -> str:
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
    from redraft.projections.plain import counted

    print_line(f"{name}: {counted(len(rows), 'row')}")
    if rows:
        out().print(table_of(columns, rows, longest=80))
