"""Histories: what is shipped goes right in each, they are the same for the same seed, and planted faults are found."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from random import Random

import msgspec
import pytest
from tests.app.testing.faults import Fault
from tests.app.testing.faults.every import EVERY
from tests.trials import first_alone

from redraft.app.testing.__main__ import main
from redraft.app.testing.faults import CALM
from redraft.app.testing.garbage import apart
from redraft.app.testing.history import Setting, history, shortest
from redraft.app.testing.loop import SimLoop, Stuck
from redraft.app.testing.outages import RESTARTED
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftRefined,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded

SEEDS = int(os.environ.get("REDRAFT_SEEDS", "100"))
"""How many histories are made: more of them by `make simulate SEEDS=0-2000`."""

SHOWN = """
import sys
from redraft.app.testing.history import history
for seed in map(int, sys.argv[1:]):
    told = history(seed)
    print("\\n".join([*told.lines(), *told.planted]))
"""


@cache
def _what_is_wrong(seed: int) -> Sequence[str]:
    """What is wrong with the history of a seed, which is made once."""
    return history(seed).wrong


@pytest.mark.parametrize("first", first_alone(range(0, SEEDS, 20)))
def test_nothing_goes_wrong_in_histories(first: int):
    wrong = {seed: found for seed in range(first, min(first + 20, SEEDS)) if (found := _what_is_wrong(seed))}
    assert wrong == {}, "python -m redraft.app.testing --seeds N shows one of them"


def test_where_nothing_fails_nothing_is_done_twice():
    told = [history(seed, Setting(CALM)) for seed in range(10)]
    assert [each.wrong for each in told] == [()] * 10
    assert not any(each.planted for each in told)


@pytest.mark.check
def test_what_a_broker_lost_is_asked_for_again_long_before_its_deadline():
    """All queues are lost once, with requests and answers in them, and single messages too; nobody fills them again."""
    forgetful = Setting(msgspec.structs.replace(CALM, broker_forgets=1.0, letter_lost=0.03), unasked=False)
    told = [history(seed, forgetful) for seed in range(16)]
    assert [each.wrong for each in told] == [()] * 16
    assert sum(len(each.planted) for each in told) > 20
    waits = [wait for each in told for wait in _waits(each.events)]
    assert max(waits) < timedelta(minutes=5)


@pytest.mark.check
def test_what_a_broker_lost_as_it_restarted_is_asked_for_again_soon():
    """Nobody but the coordinators sends anything again, and what nobody lost is not sent again (`_check_resent`)."""
    restarting = Setting(msgspec.structs.replace(CALM, broker_restarts=1.0), unasked=False)
    told = [history(seed, restarting) for seed in range(24)]
    assert [each.wrong for each in told] == [()] * 24
    assert [each.planted for each in told] == [(RESTARTED,)] * 24
    assert max(wait for each in told for wait in _waits(each.events)) < timedelta(minutes=1)


def test_coordinators_that_divide_the_runs_lose_none():
    """They die, stall, lose their leases without noticing, and are more than there are partitions."""
    told = [history(seed, Setting(divided=True)) for seed in range(16)]
    assert [each.wrong for each in told] == [()] * 16
    assert sum(len(each.planted) for each in told) > 20


def _waits(events: Sequence[Recorded]) -> Iterator[timedelta]:
    """How long each request waited for its answer, of those that have one."""
    asked: dict[tuple[str, str], datetime] = {}
    for event in events:
        match event.data:
            case StepRequested(path=path):
                asked[event.run, path] = event.time
            case (
                DraftGenerated(path=path) | DraftCritiqued(path=path) | DraftRefined(path=path) | StepFailed(path=path)
            ):
                yield event.time - asked[event.run, path]
            case _:
                pass


def test_a_seed_is_one_history_in_every_process():
    """Whatever the hashes of texts are, and whatever was made before."""
    orders = (["3", "4", "5"], ["3", "4", "5"])
    told = [
        subprocess.run(
            [sys.executable, "-c", SHOWN, *seeds],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            check=True,
        ).stdout
        for number, seeds in enumerate(orders, 1)
    ]
    assert told[0] == told[1]
    assert told[0].count(b"run.started.v1") >= 3
    history(9)
    assert "\n".join(history(4).lines()).encode() in told[0]


@pytest.mark.check
def test_seeds_are_divided_between_processes():
    """As `make simulate` divides them: each is counted once, with all its events."""
    command = [sys.executable, "-m", "redraft.app.testing", "--seeds", "0-11", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    events = sum(len(history(seed).events) for seed in range(12))
    assert done.stdout.startswith(f"12 histories, {events} events, 0 wrong;"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--seeds 5-3", "--seeds 5-3: give two numbers, the smaller one first, as in 0-200, or one"),
        ("--seeds 5-", "--seeds 5-: give two numbers, "),
        ("--seeds x", "--seeds x: give two numbers, "),
        ("--seeds ²", "--seeds ²: give two numbers, "),
        ("--jobs -1", "--jobs -1: give a number of processes, 1 to 9,999"),
        ("--jobs 0", "--jobs 0: give a number of processes, 1 to 9,999"),
        ("--jobs x", "--jobs x: give a number of processes, 1 to 9,999"),
        ("--seeds 1 2", "unrecognized arguments: 2; see python -m redraft.app.testing --help"),
        ("--seeds", "argument --seeds: expected one argument; see python -m redraft.app.testing --help"),
    ],
)
def test_what_makes_no_histories_is_refused_in_one_line(arguments: str, told: str, capsys: pytest.CaptureFixture[str]):
    assert main(arguments.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert shown.err.startswith(told)


def test_one_seed_or_several_are_made_and_counted(capsys: pytest.CaptureFixture[str]):
    assert [main(["--seeds", each, "--jobs", "1"]) for each in ("3", "3-3", "3-4")] == [0, 0, 0]
    counts = [line.partition(" histories")[0] for line in capsys.readouterr().out.splitlines()]
    assert counts == ["1", "1", "2"]


def test_every_planted_fault_can_still_be_planted():
    for fault in EVERY:
        with fault.planted():
            pass


@pytest.mark.check
@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault):
    with fault.planted():
        assert history(fault.seed).wrong
    assert not _what_is_wrong(fault.seed)


def test_the_shortest_prefix_of_faults_is_found():
    (lost,) = (fault for fault in EVERY if fault.name == "request settled before its outcome is sent")
    with lost.planted():
        whole = history(lost.seed)
        most, told = shortest(lost.seed, Setting())
        assert told.wrong
        assert len(told.planted) == most < len(whole.planted)
        assert told.planted == whole.planted[:most]
        assert not history(lost.seed, Setting(max_faults=most - 1)).wrong


def test_who_is_killed_does_not_clean_up():
    """An acknowledgement in a `finally` would reach the broker from beyond the grave."""
    done: list[str] = []

    async def holds() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            done.append("cleaned up")

    async def kills() -> None:
        victim = loop.process("victim")
        loop.spawn(victim, holds())
        await asyncio.sleep(1)
        loop.kill(victim)
        await asyncio.sleep(100)

    with apart():
        loop = SimLoop(Random(1))
        loop.run_until_complete(kills())
        assert loop.time() > 100
        assert done == []
        loop.dispose()


def test_a_loop_that_is_disposed_of_keeps_nothing_that_its_tasks_ask_for_as_they_are_closed():
    """Else Python closes the rest of them some time later, and tells whoever listens then."""

    class Kept(list[object]):
        pass

    async def holds(kept: Kept) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            loop.call_later(1, kept.clear)

    def spawn() -> None:
        kept = Kept()
        kept.append(loop.spawn(loop.process("holder"), holds(kept)))

    with apart():
        loop = SimLoop(Random(1))
        spawn()
        loop.run_until_complete(asyncio.sleep(1))
        loop.dispose()
    assert not [each for each in gc.get_objects() if type(each) is Kept]


def test_who_stands_still_goes_on_where_it_was():
    seen: list[float] = []

    async def counts() -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(loop.time())

    async def holds_up() -> None:
        slow = loop.process("slow")
        loop.spawn(slow, counts())
        await asyncio.sleep(2.5)
        loop.pause(slow, 60)
        await asyncio.sleep(63)

    with apart():
        loop = SimLoop(Random(1))
        loop.run_until_complete(holds_up())
        assert [round(at) for at in seen[:4]] == [1, 2, 63, 64]
        loop.dispose()


def test_where_nothing_can_happen_any_more_it_is_said():
    async def waits() -> None:
        await asyncio.get_running_loop().create_future()

    with apart():
        loop = SimLoop(Random(1))
        with pytest.raises(Stuck, match="nothing is due"):
            loop.run_until_complete(waits())
        loop.dispose()
