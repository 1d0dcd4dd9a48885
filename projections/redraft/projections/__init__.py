"""What can be seen: read models that are made of the log, and views of one run that are folds of its events."""

from redraft.projections.history import history
from redraft.projections.projection import Projection, Table
from redraft.projections.projector import catch_up, follow, rebuild
from redraft.projections.run_list import RunLine, find_run, list_runs
from redraft.projections.runs import RUNS
from redraft.projections.step_list import StepLine, steps_of
from redraft.projections.steps import STEPS
from redraft.projections.tree import tree
from redraft.projections.views import Views, open_views

__all__ = [
    "RUNS",
    "STEPS",
    "Projection",
    "RunLine",
    "StepLine",
    "Table",
    "Views",
    "catch_up",
    "find_run",
    "follow",
    "history",
    "list_runs",
    "open_views",
    "rebuild",
    "steps_of",
    "tree",
]
