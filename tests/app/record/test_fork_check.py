"""Whether what a fork repeats is what its parent recorded."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from tests.streams import Told, article, recorded

from redraft.actors.deciding.forking import begin_fork
from redraft.app.record.auditing.record_faults import Lineage, compare_lineage
from redraft.events.messages.commands import StartRun
from redraft.events.messages.domain_events import Parent, RunErased, RunStarted
from redraft.events.messages.envelope import Recorded

PARENT = article(run="parent")


def fork_of(at: int) -> list[Recorded]:
    begun = PARENT[0].data
    assert isinstance(begun, RunStarted)
    start = StartRun("fork", begun.plan, begun.brief, parent=Parent("parent", at))
    told: list[Told] = [("somebody", event) for event in begin_fork(start, PARENT[:at], PARENT[-1].time).events]
    events = recorded("fork", told)
    return [
        replace(event, repeats=PARENT[event.version - 1].id) if 1 < event.version <= at else event for event in events
    ]


async def told(events: Sequence[Recorded], past: Sequence[Recorded] = PARENT) -> Lineage:
    async def read(run: str) -> Sequence[Recorded]:
        assert run == "parent"
        return past

    return await compare_lineage(events, read)


async def test_a_fork_repeats_its_parent_word_for_word() -> None:
    for at in (1, 7, len(PARENT) - 1):
        assert await told(fork_of(at)) == Lineage(
            f"a fork of run parent at event {at}, whose events it repeats word for word"
        )
    assert await told(PARENT) == Lineage()


async def test_what_was_changed_in_either_is_named() -> None:
    fork = fork_of(9)
    other = [replace(event, data=fork[4].data) if event.version == 6 else event for event in fork]
    assert (await told(other)).fault == "event 6 of run fork is not what it repeats, event 6 of run parent"
    foreign = [replace(event, repeats="x") if event.version == 3 else event for event in fork]
    assert (await told(foreign)).fault == "event 3 of run fork is not what it repeats, event 3 of run parent"
    past = [replace(event, data=PARENT[1].data) if event.version == 8 else event for event in PARENT]
    assert (await told(fork, past)).fault == "event 8 of run fork is not what it repeats, event 8 of run parent"
    assert (await told(fork[:5])).fault == "run fork has 5 events, and repeats 9 of run parent"


async def test_what_cannot_be_compared_is_said() -> None:
    assert await told(fork_of(9), PARENT[:4]) == Lineage("a fork of run parent at event 9, which is not in this store")
    erased = [*PARENT, replace(PARENT[-1], version=len(PARENT) + 1, data=RunErased("ann"))]
    found = await told(fork_of(9), erased)
    assert found == Lineage("a fork of run parent at event 9; texts were erased, so the two cannot be compared")
