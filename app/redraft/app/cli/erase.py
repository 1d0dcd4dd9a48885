"""`redraft erase`: the texts of a run made unreadable, for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from redraft.app.cli.faults import say
from redraft.app.cli.options import JsonOption, RunArgument, StoreOption
from redraft.app.cli.output import print_json, print_line
from redraft.app.cli.reading import refuse_missing
from redraft.app.cli.steer import ByOption, ReasonOption, name_of

if TYPE_CHECKING:
    from redraft.app.erasure import Erased
    from redraft.app.settings import Settings

EXAMPLE: Final = "Example: redraft erase last --reason 'Ada asked for it'"


def erase(
    run: RunArgument,
    by: ByOption = "",
    reason: ReasonOption = "",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Make the texts of a run that has ended unreadable: its brief, drafts, critiques, reasons.

    Its key is destroyed, so this needs a run that was recorded with REDRAFT_ENCRYPT=1. What was recorded stays as it is
    and is still verified; who had it erased, and when, is recorded after it. It cannot be undone.
    """
    import asyncio

    from redraft.app.settings import read_settings

    settings = read_settings(store=store)
    refuse_missing(settings.store)
    done = asyncio.run(_erased(settings, run, name_of(by), reason))
    if json:
        print_json(done)
        return
    print_line(
        f"run {done.run}: its texts can no longer be read; erased by {done.by} at {done.time:%Y-%m-%d %H:%M:%S} UTC"
    )
    for line in done.leftover:
        say(line)


async def _erased(settings: Settings, run: str, by: str, reason: str) -> Erased:
    from redraft.app.compose import open_house
    from redraft.app.erasure import erase_run

    async with open_house(settings, ()) as house:
        return await erase_run(house, settings, run, by=by, reason=reason)
