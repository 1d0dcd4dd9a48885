"""The parts of the campaign: which faults, how many at scale 1, how long apart, beside how many runs a second."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from tests.chaos.campaign import faults
from tests.chaos.campaign.faults import Fault
from tests.chaos.campaign.scene import Scene
from tests.chaos.campaign.servers import Servers
from tests.chaos.campaign.verdict import Verdict, judge

from redraft.events.postgres.connection import SILENCE

FROZEN: Final = (20.0, 30.0)
"""Seconds of a freeze, on a small scale and at scale 1."""

SILENT: Final = ("COMMIT swallowed, kept", "way frozen", "connections half-closed")
"""Faults after which a server may be waited for as long as is waited for one that says nothing."""


class Part(msgspec.Struct, frozen=True):
    """`faults` say how many of each at scale 1; `apart` are the least and the most seconds between two.

    `small`: on servers whose disks are small. `clock`: the second coordinator and worker have a clock that can jump.
    """

    faults: tuple[tuple[str, int], ...]
    apart: tuple[float, float]
    rate: float = 2.0
    small: bool = False
    clock: bool = False


class Outcome(msgspec.Struct, frozen=True):
    """What came of a part: the faults that were brought about, the verdict, what else was seen, and lines about it."""

    faults: Mapping[str, int]
    verdict: Verdict
    notes: Mapping[str, int]
    told: tuple[str, ...] = ()


PARTS: Final[dict[str, Part]] = {
    "worker-kills": Part((("worker killed", 500),), (0.5, 4.0)),
    "coordinator-kills": Part((("coordinator killed", 100),), (3.0, 12.0)),
    "broker-kills": Part((("broker killed", 40),), (4.0, 12.0)),
    "postgres-kills": Part((("PostgreSQL killed", 40),), (4.0, 12.0)),
    "broker-wipes": Part((("broker emptied", 5),), (20.0, 40.0)),
    "swallowed-commits": Part((("COMMIT swallowed, cut", 100), ("COMMIT swallowed, kept", 100)), (1.0, 4.0)),
    "freezes": Part(
        (
            ("worker frozen", 10),
            ("coordinator frozen", 10),
            ("broker frozen", 10),
            ("PostgreSQL frozen", 10),
            ("way frozen", 10),
        ),
        (5.0, 10.0),
        rate=1.0,
    ),
    "cuts": Part((("connections cut", 25), ("connections half-closed", 25)), (2.0, 6.0)),
    "full-disks": Part((("broker's disk full", 5), ("PostgreSQL's disk full", 5)), (10.0, 20.0), rate=1.0, small=True),
    "clock-jumps": Part((("clock ahead", 5), ("clock behind", 5)), (5.0, 15.0), clock=True),
}


FAULTS: Final[dict[str, Fault]] = {
    "worker killed": faults.kill_worker,
    "coordinator killed": faults.kill_coordinator,
    "broker killed": faults.kill_broker,
    "PostgreSQL killed": faults.kill_store,
    "broker emptied": faults.wipe_broker,
    "COMMIT swallowed, cut": faults.swallow_commit_and_cut,
    "COMMIT swallowed, kept": faults.swallow_commit_and_keep,
    "worker frozen": faults.freeze_worker,
    "coordinator frozen": faults.freeze_coordinator,
    "broker frozen": faults.freeze_broker,
    "PostgreSQL frozen": faults.freeze_store,
    "way frozen": faults.freeze_way,
    "connections cut": faults.cut,
    "connections half-closed": faults.half_close,
    "broker's disk full": faults.fill_broker,
    "PostgreSQL's disk full": faults.fill_store,
    "clock ahead": faults.clock_ahead,
    "clock behind": faults.clock_behind,
}


def numbers(part: Part, scale: float) -> dict[str, int]:
    """How many of each fault on this scale: one at least."""
    return {what: max(1, math.ceil(number * scale)) for what, number in part.faults}


async def play(part: Part, servers: Servers, scale: float, seed: int, folder: Path) -> Outcome:
    """Brings the faults about, in an order that the seed gives, and judges what is left. Raises Skipped."""
    chance = Random(seed)
    order = [what for what, number in numbers(part, scale).items() for _ in range(number)]
    chance.shuffle(order)
    scene = Scene(folder, servers, chance, part.rate, FROZEN[scale >= 1], odd_clock=part.clock)
    async with scene.at_work():
        for what in order:
            await asyncio.sleep(chance.uniform(*part.apart))
            with scene.trouble(SILENCE if what in SILENT else 0.0):
                await FAULTS[what](scene)
    return Outcome(numbers(part, scale), judge(await scene.evidence()), scene.notes)
