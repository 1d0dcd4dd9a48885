"""Read models that projections make from the log, and views that fold the events of one run; knows nothing of actors.

`Projection` and `Table` describe a read model; `Put`, `Set`, `SetAll` and `Delete` are the changes that an event makes
to its rows.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from redraft.projections.backends import SHIPPED, ReadModels, open_views
    from redraft.projections.engine.projection import Change, Delete, Projection, Put, Set, SetAll, Table
    from redraft.projections.engine.projector import catch_up, follow, rebuild
    from redraft.projections.engine.states import Compared, Resumed, State, Stopped, Switched
    from redraft.projections.engine.views import Views
    from redraft.projections.read_models.actor_work import ACTORS, ActorLine, actors
    from redraft.projections.read_models.choices import CHOICES, ArmLine, arms
    from redraft.projections.read_models.critiques import (
        CRITIQUES,
        SCORES,
        Course,
        Critic,
        CritiqueLine,
        Scored,
        course,
        critics,
        critiques_of,
        series,
    )
    from redraft.projections.read_models.issues import ISSUES, Issue, IssueCount, issue_counts, issues_of
    from redraft.projections.read_models.publications import PUBLICATIONS, Publication, publications
    from redraft.projections.read_models.runs import RUNS
    from redraft.projections.read_models.runs_query import RunLine, find_run, list_runs
    from redraft.projections.read_models.steps import STEPS, StepLine, steps_of
    from redraft.projections.read_models.tree_nodes import TREE, TreeNode, tree_nodes
    from redraft.projections.run_views.sentences import history
    from redraft.projections.run_views.tree import tree

__all__ = [
    "ACTORS",
    "CHOICES",
    "CRITIQUES",
    "ISSUES",
    "PUBLICATIONS",
    "RUNS",
    "SCORES",
    "SHIPPED",
    "STEPS",
    "TREE",
    "ActorLine",
    "ArmLine",
    "Change",
    "Compared",
    "Course",
    "Critic",
    "CritiqueLine",
    "Delete",
    "Issue",
    "IssueCount",
    "Projection",
    "Publication",
    "Put",
    "ReadModels",
    "Resumed",
    "RunLine",
    "Scored",
    "Set",
    "SetAll",
    "State",
    "StepLine",
    "Stopped",
    "Switched",
    "Table",
    "TreeNode",
    "Views",
    "actors",
    "arms",
    "catch_up",
    "course",
    "critics",
    "critiques_of",
    "find_run",
    "follow",
    "history",
    "issue_counts",
    "issues_of",
    "list_runs",
    "open_views",
    "publications",
    "rebuild",
    "series",
    "steps_of",
    "tree",
    "tree_nodes",
]

_HOMES: Final = {
    "ACTORS": "redraft.projections.read_models.actor_work",
    "ActorLine": "redraft.projections.read_models.actor_work",
    "ArmLine": "redraft.projections.read_models.choices",
    "CHOICES": "redraft.projections.read_models.choices",
    "CRITIQUES": "redraft.projections.read_models.critiques",
    "Change": "redraft.projections.engine.projection",
    "Compared": "redraft.projections.engine.states",
    "Course": "redraft.projections.read_models.critiques",
    "Critic": "redraft.projections.read_models.critiques",
    "CritiqueLine": "redraft.projections.read_models.critiques",
    "Delete": "redraft.projections.engine.projection",
    "ISSUES": "redraft.projections.read_models.issues",
    "Issue": "redraft.projections.read_models.issues",
    "IssueCount": "redraft.projections.read_models.issues",
    "PUBLICATIONS": "redraft.projections.read_models.publications",
    "Projection": "redraft.projections.engine.projection",
    "Publication": "redraft.projections.read_models.publications",
    "Put": "redraft.projections.engine.projection",
    "RUNS": "redraft.projections.read_models.runs",
    "ReadModels": "redraft.projections.backends",
    "Resumed": "redraft.projections.engine.states",
    "RunLine": "redraft.projections.read_models.runs_query",
    "SCORES": "redraft.projections.read_models.critiques",
    "SHIPPED": "redraft.projections.backends",
    "STEPS": "redraft.projections.read_models.steps",
    "Scored": "redraft.projections.read_models.critiques",
    "Set": "redraft.projections.engine.projection",
    "SetAll": "redraft.projections.engine.projection",
    "State": "redraft.projections.engine.states",
    "StepLine": "redraft.projections.read_models.steps",
    "Stopped": "redraft.projections.engine.states",
    "Switched": "redraft.projections.engine.states",
    "TREE": "redraft.projections.read_models.tree_nodes",
    "Table": "redraft.projections.engine.projection",
    "TreeNode": "redraft.projections.read_models.tree_nodes",
    "Views": "redraft.projections.engine.views",
    "actors": "redraft.projections.read_models.actor_work",
    "arms": "redraft.projections.read_models.choices",
    "catch_up": "redraft.projections.engine.projector",
    "course": "redraft.projections.read_models.critiques",
    "critics": "redraft.projections.read_models.critiques",
    "critiques_of": "redraft.projections.read_models.critiques",
    "find_run": "redraft.projections.read_models.runs_query",
    "follow": "redraft.projections.engine.projector",
    "history": "redraft.projections.run_views.sentences",
    "issue_counts": "redraft.projections.read_models.issues",
    "issues_of": "redraft.projections.read_models.issues",
    "list_runs": "redraft.projections.read_models.runs_query",
    "open_views": "redraft.projections.backends",
    "publications": "redraft.projections.read_models.publications",
    "rebuild": "redraft.projections.engine.projector",
    "series": "redraft.projections.read_models.critiques",
    "steps_of": "redraft.projections.read_models.steps",
    "tree": "redraft.projections.run_views.tree",
    "tree_nodes": "redraft.projections.read_models.tree_nodes",
}
"""The module of each name, which is imported when the name is first used: who reads the runs need not wait for all."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has that name
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
