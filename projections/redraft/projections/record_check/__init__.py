"""Checks a run's record against its plan, by code that shares nothing with the deciding core.

It reads the record from its beginning with the plan in hand, as a parser reads a text: each event must be one that the
plan calls for next, or one that comes from outside. Neither `decide` nor `evolve` is used.
"""

from redraft.projections.record_check.chain import Finding, Row
from redraft.projections.record_check.check import Checked, Ids, check_events, check_rows, sources_in, unmet_drafts
from redraft.projections.record_check.reused import UNPROVEN, Sources

__all__ = [
    "UNPROVEN",
    "Checked",
    "Finding",
    "Ids",
    "Row",
    "Sources",
    "check_events",
    "check_rows",
    "sources_in",
    "unmet_drafts",
]
