"""`redraft doctor`: whether all that Redraft needs is there and in order."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from redraft.app.cli.faults import FAILED
from redraft.app.cli.options import JsonOption, StoreOption
from redraft.app.cli.output import out, print_json

EXAMPLE: Final = "Example: redraft doctor --deep"

_UNREACHABLE: Final = 5
_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(
    deep: Annotated[bool, typer.Option("--deep", help="Verify every run, not only the newest.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Check the store, the runs, the versions and the disk.

    Each line is ok, warn or fail. Exit codes: 0 nothing fails, 1 something does, 5 the store cannot be reached.
    """
    import asyncio

    from redraft.app.cli.checks import checks_of
    from redraft.app.settings import read_settings

    found = asyncio.run(checks_of(read_settings(store=store), deep=deep))
    if json:
        print_json({"ok": all(each.level != "fail" for each in found), "checks": found})
    else:
        from rich.text import Text

        for each in found:
            line = Text.assemble((f"{each.level:<5}", _COLOURS[each.level]), f"{each.name:<12} {each.told}")
            out().print(line, soft_wrap=True)
    if any(each.unreachable for each in found):
        return _UNREACHABLE
    return FAILED if any(each.level == "fail" for each in found) else 0
