"""Rows of the runs of one workflow, where they say nothing of it: the list of runs beside them does."""

from __future__ import annotations


def of_workflow(workflow: str) -> str:
    """The end of a condition on a table with a `run`, for a query that is given `:workflow`; "" when that is empty.

    The projection `RUNS` has to be kept in the same place.
    """
    return "AND run IN (SELECT run FROM runs WHERE workflow = :workflow)" if workflow else ""
