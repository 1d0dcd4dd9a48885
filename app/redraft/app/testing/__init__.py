"""Histories with virtual time: what coordinators, relay, workers and projections make of faults, the same for a seed.

Nothing here waits for real time: an `asyncio.sleep` of 30 seconds moves the simulated clock, and takes none.

`history(seed)` makes one and says what is wrong with it; `python -m redraft.app.testing --seeds 0-2000` makes many.
"""

from redraft.app.testing.faults import CALM, Odds
from redraft.app.testing.history import History, Setting, history, shortest

__all__ = ["CALM", "History", "Odds", "Setting", "history", "shortest"]
