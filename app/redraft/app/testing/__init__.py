"""Simulates deployments in virtual time: coordinators, relay, workers and projections under faults, repeatable by seed.

It knows nothing of the command line. Nothing here waits for real time: an `asyncio.sleep` of 30 seconds moves the
simulated clock at once.

`simulate(workflow, actors, seeds=200)` tests your own workflow and actors in many histories; docs/testing.md shows it.
`history(seed)` makes one history with random plans and reports what is wrong with it; `python -m redraft.app.testing
--seeds 0-2000` makes many. `run_recorded` runs a workflow on recorded answers; the pytest plugin's fixture `redraft`
calls it.
"""

from redraft.app.testing.faults import CALM, Odds
from redraft.app.testing.history import History, Setting, history, shortest
from redraft.app.testing.nodes import Outside
from redraft.app.testing.own_actors import RealWork
from redraft.app.testing.recorded.story import NotRecorded, Story, run_recorded
from redraft.app.testing.simulate import Simulated, SimulationFailed, simulate

__all__ = [
    "CALM",
    "History",
    "NotRecorded",
    "Odds",
    "Outside",
    "RealWork",
    "Setting",
    "Simulated",
    "SimulationFailed",
    "Story",
    "history",
    "run_recorded",
    "shortest",
    "simulate",
]
