"""The projections that come with Redraft."""

from __future__ import annotations

from typing import Final

from redraft.projections.projection import Projection
from redraft.projections.runs import RUNS
from redraft.projections.steps import STEPS

FOLLOWED: Final[tuple[Projection, ...]] = (RUNS, STEPS)
"""Those that every process that decides keeps up to date: the list of runs, and what the timekeeper looks at."""

SHIPPED: Final[tuple[Projection, ...]] = FOLLOWED
"""All of them. Those that nobody follows are brought up to date when they are asked for: see `ReadModels`."""
