"""`redraft doctor`: whether all that Redraft needs is there and in order. It also fills an emptied broker again."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from redraft.app.cli.shared.exit_codes import FAILED, UNREACHABLE, USAGE
from redraft.app.cli.shared.options import BusOption, JsonOption, StoreOption
from redraft.app.cli.shared.output import print_json, print_result, print_wrapped
from redraft.app.cli.shared.reading import refuse_missing, run_quietly
from redraft.app.settings.settings import Settings, read_settings
from redraft.projections.display import counted

EXAMPLE: Final = """\b
Examples:
  redraft doctor --deep
  redraft doctor --republish
"""


_MESSAGE: Final = 18
"""The column at which messages begin."""

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(
    deep: Annotated[
        bool, typer.Option("--deep", help="Verify every run, and hold each against its plan; a large log takes long.")
    ] = False,
    republish: Annotated[
        bool,
        typer.Option(
            "--republish", help="Send again all that is open and fill the stream, for a broker that lost its data."
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
    from redraft.app.cli.doctor.store_checks import checks_of

    settings = read_settings(store=store, bus=bus)
    if republish:
        return _republish(settings, json=json)
    found = run_quietly(checks_of(settings, deep=deep))
    if json:
        print_json({"ok": all(each.level != "fail" for each in found), "checks": found})
    else:
        from rich.text import Text

        for each in found:
            line = Text.assemble((f"{each.level:<5}", _COLOURS[each.level]), f"{each.name:<12} {each.message}")
            print_wrapped(line, _MESSAGE)
    if any(each.unreachable for each in found):
        return UNREACHABLE
    if any(each.misused for each in found):
        return USAGE
    return FAILED if any(each.level == "fail" for each in found) else 0


def _republish(settings: Settings, *, json: bool) -> int:
    from redraft.app.wiring.deployment import republish

    refuse_missing(settings.store)
    sent, announced = run_quietly(republish(settings))
    stream = "the stream of events was not changed: to fill it from the log, stop the coordinators and run this again"
    if announced is not None:
        stream = f"the stream of events was filled from the log: {counted(announced, 'event')}"
    lines = [f"{counted(sent, 'open request')} sent again", stream]
    print_result({"sent_again": sent, "announced_again": announced}, lines, json=json)
    return 0
