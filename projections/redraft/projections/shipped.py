"""The projections that come with Redraft."""

from __future__ import annotations

from typing import Final

from redraft.projections.choices import CHOICES
from redraft.projections.critiques import CRITIQUES
from redraft.projections.issues import ISSUES
from redraft.projections.projection import Projection
from redraft.projections.publications import PUBLICATIONS
from redraft.projections.runs import RUNS
from redraft.projections.score_series import SCORES
from redraft.projections.steps import STEPS
from redraft.projections.tree_nodes import TREE
from redraft.projections.work import ACTORS

FOLLOWED: Final[tuple[Projection, ...]] = (RUNS, STEPS)
"""Those that every process that decides keeps up to date: the list of runs, and what the timekeeper looks at."""

SHIPPED: Final[tuple[Projection, ...]] = (*FOLLOWED, ACTORS, CHOICES, CRITIQUES, ISSUES, PUBLICATIONS, SCORES, TREE)
"""All of them. Those that nobody follows are brought up to date when they are asked for: see `ReadModels`."""
