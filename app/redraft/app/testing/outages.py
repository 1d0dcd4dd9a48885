"""Random outages of the broker: it loses its queues, restarts, or stands still."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from redraft.app.testing.broker import SimBroker

WIPED: Final = "the broker loses its queues, and all that is in them"
FORGOTTEN: Final = f"{WIPED}, and nobody sends it again"
RESTARTED: Final = "the broker restarts, and loses the requests in its queues"
STALLED: Final = "the broker stands still"

SOON: Final = 120.0
"""The faults drawn for a process happen within this many seconds of its start, or of the history's."""

_STALL: Final = (60.0, 1_200.0)
"""The fewest and the most seconds for which the broker stands still."""

_STALLS: Final = 3
"""The most times that it does so in a history that has such a fault."""


def draw_outages(
    broker: SimBroker, seed: int, is_over: Callable[[], bool], send_again: Callable[[float], None]
) -> None:
    """Draws what happens to the broker in a history, unless that `is_over` by then.

    After some losses `send_again` is called with the seconds after which people send all open requests again.
    """
    faults, odds = broker.faults, broker.faults.odds
    later = partial(_call_later, broker, is_over)
    if faults.happens(odds.broker_wiped, WIPED):
        later(WIPED, lambda: _wipe(broker, send_again))
    if faults.happens(odds.broker_forgets, FORGOTTEN):
        later(FORGOTTEN, broker.wipe)
    if faults.happens(odds.broker_restarts, RESTARTED):
        later(RESTARTED, broker.restart)
    random = Random(f"{seed} stalls 3432")  # its own, so that histories without such a fault do not depend on it
    if random.random() < odds.broker_stalls and faults.strikes(STALLED):
        begins = 0.0
        for _ in range(random.randint(1, _STALLS)):
            begins, seconds = begins + random.uniform(2, SOON), random.uniform(*_STALL)
            broker.loop.call_later(begins, _stall, broker, is_over, seconds)
            begins += seconds


def _call_later(broker: SimBroker, is_over: Callable[[], bool], what: str, happen: Callable[[], None]) -> None:
    def happens() -> None:
        if not is_over():
            broker.faults.note(what)
            happen()

    broker.loop.call_later(broker.faults.between(2, SOON), happens)


def _wipe(broker: SimBroker, send_again: Callable[[float], None]) -> None:
    broker.wipe()
    send_again(broker.faults.between(30, 300))


def _stall(broker: SimBroker, is_over: Callable[[], bool], seconds: float) -> None:
    if not is_over():
        broker.faults.note(f"{STALLED} for {seconds:.0f} s")
        broker.stands_until = broker.loop.time() + seconds
