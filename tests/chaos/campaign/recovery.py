"""How long it takes until all goes on after a kill: one at a time, the next when all went on again."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import msgspec
from tests.chaos.campaign import faults
from tests.chaos.campaign.faults import Fault
from tests.chaos.campaign.parts import Outcome
from tests.chaos.campaign.scene import Scene
from tests.chaos.campaign.servers import Servers
from tests.chaos.campaign.verdict import judge

EACH: Final = 20
"""Kills of each kind at scale 1."""

QUIET: Final = 5.0
"""Seconds for which all goes on before the next kill."""

LONGEST: Final = 120.0
GOALS: Final = {"worker": 5.0, "coordinator": 15.0, "broker": 15.0, "PostgreSQL": 10.0}
"""Seconds; for a server they count from when its port is open again."""


class Recovered(msgspec.Struct, frozen=True):
    """Seconds after a kill: until what was asked for after it is `next` answered, until `all` that was open is."""

    next: float
    all: float


async def play(servers: Servers, scale: float, seed: int, folder: Path) -> Outcome:
    """Kills each kind so many times, and waits each time until all goes on."""
    scene = Scene(folder, servers, Random(seed))
    kills: dict[str, Fault] = {
        "worker": faults.kill_worker,
        "coordinator": _kill_relaying,
        "broker": faults.kill_broker,
        "PostgreSQL": faults.kill_store,
    }
    times = max(1, math.ceil(EACH * scale))
    found: dict[str, list[Recovered]] = {kind: [] for kind in kills}
    async with scene.at_work():
        for kind, kill in kills.items():
            for _ in range(times):
                await asyncio.sleep(QUIET)
                with scene.trouble():
                    found[kind].append(await _recovered(scene, kind, kill))
    told = tuple(_told(kind, each) for kind, each in found.items())
    return Outcome(dict.fromkeys(kills, times), judge(await scene.evidence()), scene.notes, told)


def _told(kind: str, found: Sequence[Recovered]) -> str:
    """Medians and maxima, beside the goal."""
    return (
        f"{kind}: goes on after {_both([each.next for each in found])} s (goal {GOALS[kind]:g}), "
        f"all that was open answered after {_both([each.all for each in found])} s; {len(found)} kills"
    )


async def _kill_relaying(scene: Scene) -> None:
    """The coordinator on which all depends."""
    program = await asyncio.to_thread(scene.deployment.relaying)
    await asyncio.to_thread(program.replace)


async def _recovered(scene: Scene, kind: str, kill: Fault) -> Recovered:
    if kind == "broker":
        await asyncio.sleep(faults.SETTLED)
    open_then, begun = scene.watch.open, datetime.now(UTC)
    await kill(scene)
    if kind in ("broker", "PostgreSQL"):
        begun = datetime.now(UTC)  # its port is open

    def seconds() -> float:
        return (datetime.now(UTC) - begun).total_seconds()

    def goes_on() -> bool:
        return scene.watch.latest is not None and scene.watch.latest > begun

    await _waited(scene, f"it goes on after a {kind} was killed", goes_on)
    goes_on_after = seconds()
    await _waited(scene, f"what was open when a {kind} was killed", lambda: not open_then & scene.watch.open)
    return Recovered(goes_on_after, seconds())


async def _waited(scene: Scene, what: str, condition: Callable[[], bool]) -> None:
    """Waits for a condition; notes it where that takes longer than it is waited for."""
    try:
        await scene.until(what, condition, LONGEST)
    except TimeoutError:
        scene.notes[f"longer than {LONGEST:g} s: {what}"] += 1


def _both(numbers: list[float]) -> str:
    return f"{median(numbers):.1f}, at most {max(numbers):.1f}"
