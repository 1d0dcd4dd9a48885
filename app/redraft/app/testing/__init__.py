"""Histories with virtual time: what coordinators, relay, workers and projections make of faults, the same for a seed.

Nothing here waits for real time: an `asyncio.sleep` of 30 seconds moves the simulated clock, and takes none.

`simulate(workflow, actors, seeds=200)` tries your own workflow and actors in many; docs/testing.md shows it at work.
`history(seed)` makes one of random plans and says what is wrong with it; `python -m redraft.app.testing --seeds 0-2000`
makes many.
"""

from redraft.app.testing.faults import CALM, Odds
from redraft.app.testing.history import History, Setting, history, shortest
from redraft.app.testing.outside import Outside
from redraft.app.testing.real_work import RealWork
from redraft.app.testing.simulate import Simulated, SimulationFailed, simulate

__all__ = [
    "CALM",
    "History",
    "Odds",
    "Outside",
    "RealWork",
    "Setting",
    "Simulated",
    "SimulationFailed",
    "history",
    "shortest",
    "simulate",
]
