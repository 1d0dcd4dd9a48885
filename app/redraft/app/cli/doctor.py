"""`redraft doctor`: whether all that Redraft needs is there and in order. It also fills an emptied broker again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.faults import FAILED, USAGE
from redraft.app.cli.options import BusOption, JsonOption, StoreOption
from redraft.app.cli.output import out, print_json, print_line

EXAMPLE: Final = """\b
Examples:
  redraft doctor --deep
  redraft doctor --rebuild-broker
"""

if TYPE_CHECKING:
    from redraft.app.settings import Settings

_UNREACHABLE: Final = 5
_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(
    deep: Annotated[
        bool, typer.Option("--deep", help="Verify every run, and hold each against its plan; a large log takes long.")
    ] = False,
    rebuild_broker: Annotated[
        bool,
        typer.Option(
            "--rebuild-broker", help="Send again all that is open and fill the stream, for a broker that lost its data."
        ),
    ] = False,
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
) -> int:
    """Check the store, the runs, the broker, the versions and the disk.

    Each line is ok, warn or fail. Exit codes: 0 nothing fails, 1 something does, 2 a URL that cannot be one, 5 store or
    broker cannot be reached.
    """
    import asyncio

    from redraft.app.cli.checks import checks_of
    from redraft.app.logs import libraries
    from redraft.app.settings import read_settings

    settings = read_settings(store=store, bus=bus)
    if rebuild_broker:
        return _rebuilt(settings, json=json)
    with libraries():
        found = asyncio.run(checks_of(settings, deep=deep))
    if json:
        print_json({"ok": all(each.level != "fail" for each in found), "checks": found})
    else:
        from rich.text import Text

        for each in found:
            line = Text.assemble((f"{each.level:<5}", _COLOURS[each.level]), f"{each.name:<12} {each.told}")
            out().print(line, soft_wrap=True)
    if any(each.unreachable for each in found):
        return _UNREACHABLE
    if any(each.misused for each in found):
        return USAGE
    return FAILED if any(each.level == "fail" for each in found) else 0


def _rebuilt(settings: Settings, *, json: bool) -> int:
    import asyncio

    from redraft.app.cli.reading import refuse_missing
    from redraft.app.logs import libraries
    from redraft.app.rebuild_broker import rebuild_broker
    from redraft.projections.plain import counted

    refuse_missing(settings.store)
    with libraries():
        sent, announced = asyncio.run(rebuild_broker(settings))
    if json:
        print_json({"sent_again": sent, "announced_again": announced})
        return 0
    print_line(f"{counted(sent, 'open request')} sent again")
    if announced is None:
        print_line(
            "the stream of events is as it was: to fill it from the log, end the coordinators and call this again"
        )
    else:
        print_line(f"the stream of events was filled from the log: {counted(announced, 'event')}")
    return 0
