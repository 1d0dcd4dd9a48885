"""People who edit drafts though nobody asked them, and say what they decide twice, at times late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random

from redraft.app.client.client import Client
from redraft.app.testing.loop import Process
from redraft.app.testing.nodes import World
from redraft.events.errors import BusError, InputError, NoSuchRun, SetAside, StoreError
from redraft.events.messages.domain_events import DraftApproved, DraftMade, DraftRejected
from redraft.events.messages.envelope import Recorded


async def edit_unasked(world: World, process: Process, random: Random) -> None:
    """Edits drafts of runs that go on, the newest and older ones, and repeats decisions that were recorded before."""
    client = world.client(process)
    while True:
        await asyncio.sleep(random.uniform(5, 60))
        for run in sorted({event.run for event in world.seen} - world.ended.keys()):
            if random.random() < 0.3:
                with suppress(BusError, StoreError, NoSuchRun, InputError, SetAside):
                    await _say(client, run, await client.history(run), random)


async def _say(client: Client, run: str, events: Sequence[Recorded], random: Random) -> None:
    decided = [each.data for each in events if isinstance(each.data, DraftApproved | DraftRejected)]
    if decided and random.random() < 0.5:
        said = random.choice(decided)
        decide = client.approve if isinstance(said, DraftApproved) else client.reject
        await decide(run, said.draft, by=said.by, step=random.choice(("", said.path)))
    elif made := [each.data.draft for each in events if isinstance(each.data, DraftMade)]:
        before = random.choice((made[-1], made[-1], random.choice(made)))
        text = f"text {random.getrandbits(40)}"
        await client.edit(run, before.ref, text, by="ben", latest=random.random() < 0.5)
