"""`redraft up` on RabbitMQ and PostgreSQL, its processes killed with -9 while it works."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from tests.chaos.histories import STEPS, doubles, require_whole
from tests.chaos.scene import Scene

from redraft.actors.runtime.working.worker import CONCURRENCY
from redraft.events.rabbit.topology import Kind

pytestmark = pytest.mark.check

COORDINATOR = "coordinator"
STANDBY = "standby"


def log_of(process: str) -> str:
    return STANDBY if process == STANDBY else "up"


def is_there(there: Scene, process: str, times: int) -> bool:
    """Whether it has begun to work so many times; of those that coordinate, the one that relays is meant."""
    event = "relaying" if process in (COORDINATOR, STANDBY) else "serving"
    return len(there.said(event, process, log_of(process))) >= times


async def killed_in_turn(there: Scene, victims: Sequence[str], runs: int) -> list[int]:
    """Kills each of these processes, one that is there again, when another equal part of the work has begun.

    Gives how many pieces of work had begun at each kill.
    """
    total = (runs + 1) * len(STEPS)
    begun: list[int] = []
    for number, victim in enumerate(victims, 1):
        part = total * number // (len(victims) + 1)
        await there.until(f"{part} steps have begun", partial(_have_begun, there, part), 120)
        await there.until(f"{victim} is there", partial(is_there, there, victim, victims[:number].count(victim)))
        there.kill(victim, log_of(victim))
        begun.append(len(there.worked()))
        assert begun[-1] < total, "it was killed while they were going"
    return begun


def _have_begun(there: Scene, steps: int) -> bool:
    return len(there.worked()) >= steps


async def killed_and_checked(
    there: Scene, victims: Sequence[str], runs: int, within: float, tell: Callable[[str], None]
) -> None:
    """Every run ends and is whole, and after each kill no more is done again than what one process was at."""
    began = time.monotonic()
    submitted = await there.submit(runs)
    begun = await killed_in_turn(there, victims, runs)
    await there.ended(submitted, within)
    seconds = time.monotonic() - began
    await require_whole(there, submitted)
    again = doubles(there, begun)
    done = len(there.worked())
    told = ", ".join(f"{victim} {number}" for victim, number in zip(victims, again, strict=True))
    tell(f"{runs} runs ended in {seconds:.1f} s; {sum(again)} of {done} pieces of work were done again: {told}")
    assert all(number <= CONCURRENCY for number in again)


@pytest.mark.parametrize("queues", ["quorum", pytest.param("classic", marks=pytest.mark.chaos)])
async def test_a_critic_a_refiner_and_the_coordinator_are_killed_in_turn(
    there: Scene, queues: Kind, tell: Callable[[str], None]
) -> None:
    there.queues = queues
    await there.up()
    victims = ("critic.judge", "refiner.improve", COORDINATOR)
    await killed_and_checked(there, victims, 60, 90, tell)
    for victim in victims:
        await there.until(f"{victim} is there again", partial(is_there, there, victim, 2))


@pytest.mark.chaos
@pytest.mark.timeout(1200)
async def test_a_thousand_runs_with_three_critics_and_two_coordinators(
    there: Scene, tell: Callable[[str], None]
) -> None:
    """The coordinator that relays is killed, then the one that took over from it, then the first again."""
    await there.up("--scale", "judge=3")
    there.start(STANDBY, "coordinator", "--name", STANDBY)
    await there.until("another stands by", lambda: bool(there.said("serving", STANDBY, STANDBY)))
    critics = [f"critic.judge-{number}" for number in (1, 2, 3)]
    victims = (critics[0], "refiner.improve", COORDINATOR, critics[1], STANDBY, "refiner.improve", critics[2])
    await killed_and_checked(there, (*victims, COORDINATOR), 1000, 600, tell)
    await there.until("it relays once more", partial(is_there, there, COORDINATOR, 3))
