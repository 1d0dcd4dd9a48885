"""What the eighth rules mend: a fall of just the margin is none."""

from __future__ import annotations

import pytest
from tests.actors.deciding.test_rules_two import IMPROVE, JUDGE, WRITE, played
from tests.properties.test_deciding_properties import RUN
from tests.streams import recorded

from redraft.events.messages.conditions import score
from redraft.events.messages.plan import Plan, Repeat
from redraft.projections.record_check.check import check_events


@pytest.mark.parametrize(("rules", "version"), [(8, 2), (7, 1)])
@pytest.mark.parametrize(("margin", "before", "after"), [(0.2, 0.9, 0.7), (0.3, 0.4, 0.1)])
def test_a_score_that_fell_by_just_the_margin_is_no_reason_to_go_back(
    rules: int, version: int, margin: float, before: float, after: float
) -> None:
    plan = Plan("p", (WRITE, Repeat("L", score >= 0.99, 3, (JUDGE, IMPROVE), rollback_margin=margin)))
    run = played(plan, "one", before, "two", after, rules=rules)
    asked = run.state.open["L[2]/improve"]
    assert asked.draft is not None
    assert asked.draft.version == version
    assert check_events(recorded(RUN, [("somebody", event) for event in run.events])) == ()
