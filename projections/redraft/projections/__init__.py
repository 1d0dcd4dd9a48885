"""Read models that projections make from the log, and views that fold the events of one run; knows nothing of actors.

`Projection` and `Table` describe a read model; `Put`, `Set`, `SetAll` and `Delete` are the changes that an event makes
to its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redraft.events.public_names import public_names

if TYPE_CHECKING:
    from redraft.projections.backends import ReadModels as ReadModels, SHIPPED as SHIPPED, open_views as open_views
    from redraft.projections.engine.projection import (
        Change as Change,
        Delete as Delete,
        Projection as Projection,
        Put as Put,
        Set as Set,
        SetAll as SetAll,
        Table as Table,
    )
    from redraft.projections.engine.projector import catch_up as catch_up, follow as follow, rebuild as rebuild
    from redraft.projections.engine.states import (
        Compared as Compared,
        Resumed as Resumed,
        State as State,
        Stopped as Stopped,
        Switched as Switched,
    )
    from redraft.projections.engine.views import Views as Views
    from redraft.projections.read_models.actor_work import ACTORS as ACTORS, ActorLine as ActorLine, actors as actors
    from redraft.projections.read_models.choices import ArmLine as ArmLine, CHOICES as CHOICES, arms as arms
    from redraft.projections.read_models.critiques import (
        CRITIQUES as CRITIQUES,
        Critic as Critic,
        CritiqueLine as CritiqueLine,
        critics as critics,
        critiques_of as critiques_of,
    )
    from redraft.projections.read_models.issues import (
        ISSUES as ISSUES,
        Issue as Issue,
        IssueCount as IssueCount,
        issue_counts as issue_counts,
        issues_of as issues_of,
    )
    from redraft.projections.read_models.publications import (
        PUBLICATIONS as PUBLICATIONS,
        Publication as Publication,
        publications as publications,
    )
    from redraft.projections.read_models.runs import RUNS as RUNS
    from redraft.projections.read_models.runs_query import (
        RunLine as RunLine,
        find_run as find_run,
        list_runs as list_runs,
    )
    from redraft.projections.read_models.scores import (
        Course as Course,
        SCORES as SCORES,
        Scored as Scored,
        course as course,
        series as series,
    )
    from redraft.projections.read_models.steps import STEPS as STEPS, StepLine as StepLine, steps_of as steps_of
    from redraft.projections.read_models.tree_nodes import TREE as TREE, TreeNode as TreeNode, tree_nodes as tree_nodes
    from redraft.projections.run_views.sentences import history as history
    from redraft.projections.run_views.tree import tree as tree
else:
    __getattr__, __dir__ = public_names(__name__)
