"""What can be seen: read models that are made of the log, and views of one run that are folds of its events.

`Projection` and `Table` say what a read model is, `Put`, `Set`, `SetAll` and `Delete` what an event changes in it.
"""

from redraft.projections.choices import CHOICES, ArmLine, arms
from redraft.projections.compare import Compared, Switched
from redraft.projections.critiques import CRITIQUES, Critic, CritiqueLine, critics, critiques_of
from redraft.projections.faults import Resumed, Stopped
from redraft.projections.history import history
from redraft.projections.issues import ISSUES, Issue, IssueCount, issue_counts, issues_of
from redraft.projections.projection import Change, Delete, Projection, Put, Set, SetAll, Table
from redraft.projections.projector import catch_up, follow, rebuild
from redraft.projections.publications import PUBLICATIONS, Publication, publications
from redraft.projections.read_models import ReadModels
from redraft.projections.run_list import RunLine, find_run, list_runs
from redraft.projections.runs import RUNS
from redraft.projections.score_series import SCORES, Course, Scored, course, series
from redraft.projections.shipped import SHIPPED
from redraft.projections.states import State
from redraft.projections.step_list import StepLine, steps_of
from redraft.projections.steps import STEPS
from redraft.projections.tree import tree
from redraft.projections.tree_nodes import TREE, TreeNode, tree_nodes
from redraft.projections.views import Views, open_views
from redraft.projections.work import ACTORS, ActorLine, actors

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
