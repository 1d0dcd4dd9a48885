"""Waiting for a run that a deployment works on: what happens is shown until it has ended, or a signal came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from redraft.app.cli.faults import say
from redraft.app.cli.interrupts import interrupts
from redraft.app.client import Client
from redraft.app.deployment import open_client, open_log_of
from redraft.app.progress import Progress, Screen
from redraft.app.result import Result
from redraft.app.settings import Settings
from redraft.app.until import is_end


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
