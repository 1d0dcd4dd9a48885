"""A run as it may be shown to strangers: what its state says of people."""

from __future__ import annotations

import msgspec
from tests.projections.logs import stateful_told
from tests.streams import recorded

from redraft.app.record.copying.anonymous import without_names
from redraft.events.messages.domain_events import StateChanged
from redraft.projections.run_views.state import state_at


def test_the_author_of_a_change_and_names_in_values_are_replaced() -> None:
    told = stateful_told()
    told[1] = ("ann", StateChanged("", 0, {"reviewers": ["ann", {"first": "ann"}], "annual": 3}, by="ann"))
    found = without_names(recorded("s", told))
    change = state_at(found).last_changes["reviewers"]
    assert change.by == "person 1"
    assert change.state == {"reviewers": ["person 1", {"first": "person 1"}], "annual": 3}
    assert b'"ann"' not in msgspec.json.encode([each.data for each in found])
