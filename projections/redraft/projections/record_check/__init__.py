"""Whether a run's record fits its plan, by a checker that shares nothing with what decides.

It reads the record from its beginning, with the plan in hand, as a reader of a language reads a text: each event is the
one that the plan has next, or one that comes from outside. Neither deciding nor folding is used.
"""

from redraft.projections.record_check.chain import Row
from redraft.projections.record_check.check import Checked, check_events, check_rows
from redraft.projections.record_check.findings import Finding
from redraft.projections.record_check.ids import Ids

__all__ = ["Checked", "Finding", "Ids", "Row", "check_events", "check_rows"]
