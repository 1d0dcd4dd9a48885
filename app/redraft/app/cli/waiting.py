"""Runs for a deployment: submitted and, if that is wanted, watched until they have ended or a signal came."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping

from redraft.app.cli.ending import tell_end
from redraft.app.cli.faults import say
from redraft.app.cli.interrupts import interrupts
from redraft.app.cli.output import print_json, print_line
from redraft.app.client import Client
from redraft.app.deployment import open_client, open_log_of
from redraft.app.logs import libraries
from redraft.app.loop import run as run_loop
from redraft.app.progress import Progress, Screen
from redraft.app.result import Result
from redraft.app.settings import Settings
from redraft.app.until import is_end


def submitted(
    settings: Settings,
    begin: Callable[[Client], Awaitable[str]],
    facts: Mapping[str, object],
    *,
    wait: bool,
    reads: bool,
    json: bool,
    quiet: bool,
) -> int:
    """Prints the id of the run that `begin` submits, or, where that is waited for, its end; returns the exit code.

    `facts` stand beside the id in JSON; `reads` says whether `begin` needs the store.
    """
    with libraries():
        if wait:
            end = run_loop(waited(settings, begin, Screen(sys.stderr, quiet=quiet)))
            return end if isinstance(end, int) else tell_end(end, text=True, json=json, quiet=quiet)
        run = run_loop(_begun(settings, begin, reads))
    if json:
        print_json({"run": run, **facts})
    else:
        print_line(run)
    return 0


async def _begun(settings: Settings, begin: Callable[[Client], Awaitable[str]], reads: bool) -> str:
    async with open_client(settings, reads=reads) as client:
        return await begin(client)


async def waited(settings: Settings, begin: Callable[[Client], Awaitable[str]], screen: Screen) -> Result | int:
    """The result of the run that `begin` submits, or the exit code of the signal that came before it."""
    with interrupts() as signals:
        async with open_log_of(settings) as store:
            after = await store.head()
        async with open_client(settings) as client:
            run = await begin(client)
            screen.show(f"run {run} is submitted", "waiting")
            if (ended := await client.result(run)) is not None:
                return ended
            watching = asyncio.create_task(_watched(client, run, after, screen))
            try:
                await asyncio.wait({watching, signals.first}, return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    await watching
                    return await client.wait(run)
            finally:
                watching.cancel()
                screen.pause()
    say(f"interrupted; the run goes on: redraft show {run}")
    return 128 + signals.number


async def _watched(client: Client, run: str, after: int, screen: Screen) -> None:
    """Shows what happens until the run has ended; what a fork repeats happened before."""
    progress = Progress()
    async for event in client.subscribe(after, run=run):
        line = progress.note(event)
        screen.show("" if event.repeats else line, progress.status)
        if is_end(event):
            return
