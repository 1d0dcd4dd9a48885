"""Conducting a run: it is started or taken up again, watched, interrupted when a person says so, and told."""

from __future__ import annotations

import asyncio
import io
import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from redraft.actors.plan_paths import steps_in
from redraft.actors.roles import Actor
from redraft.app.cli.ending import tell_end
from redraft.app.cli.faults import say
from redraft.app.cli.interrupts import Interrupts, interrupts
from redraft.app.cli.order import Given, Order, begun, new_order, resumed_order
from redraft.app.compose import House, open_house
from redraft.app.loop import run
from redraft.app.models import models_of
from redraft.app.outlets import Outlets
from redraft.app.progress import Progress, Screen
from redraft.app.result import Result, result_of
from redraft.app.settings import Settings, read_settings, shown_url
from redraft.app.until import is_end

GRACE: Final = 10.0
"""Seconds that the steps under way have to end after the first signal; what they cost would be paid again."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A signal ended the process before the run ended. `recorded`: the run is in the log, and can go on."""

    signal: int
    run: str
    recorded: bool


def conduct(given: Given, store: str | None, *, json: bool, quiet: bool) -> int:
    """Does what was asked and tells what came of it; returns the exit code. Raises RedraftError."""

    def order(outlets: Outlets, settings: Settings) -> Order:
        if given.resume:
            return resumed_order(given, outlets, settings)
        return new_order(given, outlets, settings.draft_limit)

    return carry_out(order, store, json=json, quiet=quiet, watch=given.watch)


def carry_out(
    ordered: Callable[[Outlets, Settings], Order],
    store: str | None,
    *,
    json: bool,
    quiet: bool,
    watch: bool = False,
) -> int:
    """The same for any order. `watch` shows what models write, as it comes."""
    settings = read_settings(store=store)
    screen = Screen(sys.stderr, quiet=quiet)
    models = models_of(settings, screen.write if watch else None)
    stream = io.StringIO() if json else sys.stdout
    outlets = Outlets(stream, Path.cwd(), screen.pause, models, settings.webhook_hosts)
    end: Result | Interrupted | None
    with redirect_stdout(sys.stderr):  # what the user's own functions print must not mix with the result
        order = ordered(outlets, settings)
        end = result_of(order.past) if order.has_ended else None
        if end is None:
            end = run(_conducted(settings, order, screen))
    if isinstance(end, Interrupted):
        return _told_to_resume(end, order, store, settings)
    publishes = any(step.role == "publisher" for _, step in steps_in(order.plan.steps))
    return tell_end(end, text=order.has_ended or not publishes, json=json, quiet=quiet)


async def _conducted(settings: Settings, order: Order, screen: Screen) -> Result | Interrupted:
    def differs(actor: Actor, version: str, run: str) -> None:
        screen.pause()
        here = actor.version or "unknown"
        say(f"{actor.role} {actor.name}: the run began with version {version} of its code, and this is {here}")

    with interrupts() as signals:
        resume = [order.run] if order.run else []
        async with open_house(settings, order.actors, resume=resume, differs=differs) as house:
            after = order.past[-1].position if order.past else await house.store.head()
            run = await begun(house.client, order)
            known = await house.store.read(run)
            if (ended := result_of(known)) is not None:
                return ended
            progress = Progress()
            for event in known:
                if event.position <= after:
                    progress.note(event)
            try:
                return await _watched(house, run, after, progress, screen, signals)
            finally:
                screen.pause()


async def _watched(
    house: House, run: str, after: int, progress: Progress, screen: Screen, signals: Interrupts
) -> Result | Interrupted:
    """Shows what happens until the run has ended or a signal came; then lets the steps under way end."""
    screen.show("", progress.status)
    moved = asyncio.Event()
    watching = asyncio.create_task(_watch(house, run, after, progress, screen, moved))
    try:
        await asyncio.wait({watching, signals.first}, return_when=asyncio.FIRST_COMPLETED)
        if not watching.done():
            house.drain()
            say("stopping when the step under way has ended; press Ctrl-C again to stop at once")
            idle = asyncio.create_task(_idle(progress, moved))
            await asyncio.wait({watching, idle, signals.second}, timeout=GRACE, return_when=asyncio.FIRST_COMPLETED)
            idle.cancel()
        if not watching.done():
            return Interrupted(signals.number, run, bool(await house.store.read(run, upto=1)))
        await watching
        return await house.client.wait(run)
    finally:
        watching.cancel()


async def _watch(house: House, run: str, after: int, progress: Progress, screen: Screen, moved: asyncio.Event) -> None:
    async for event in house.client.subscribe(after, run=run):
        line = progress.note(event)
        screen.show("" if event.repeats else line, progress.status)
        moved.set()
        if is_end(event):
            return


async def _idle(progress: Progress, moved: asyncio.Event) -> None:
    """Returns when what is being worked on now has been answered; what is asked for after that is not waited for."""
    waiting = set(progress.open)
    while waiting & progress.open:
        moved.clear()
        await moved.wait()


def _told_to_resume(end: Interrupted, order: Order, store: str | None, settings: Settings) -> int:
    if settings.store == "memory:":
        say("interrupted; the store memory: keeps nothing")
    elif not end.recorded:
        say("interrupted before anything was recorded; run it again")
    else:
        options = " ".join([*order.files, *([f"--store {shlex.quote(shown_url(store))}"] if store else [])])
        say(f"interrupted; go on with: redraft run --resume {end.run} {options}".rstrip())
    return 128 + end.signal
