"""What critics said of two drafts stands side by side, by the names of their steps."""

from __future__ import annotations

import pytest
from tests.streams import recorded

from redraft.events.messages.content import Critique, new_draft
from redraft.events.messages.domain_events import DraftCritiqued
from redraft.projections.run_views.scores_between import ScoreChange, scores_between


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("R[1]/judge", "R[1]/judge[edit1]"),
        ("R[1]/judge", "R[edit1]/judge"),
        ("R[1]/Two/judge[1]", "R[1]/Two/judge[2]"),
    ],
)
def test_a_critic_that_is_asked_after_an_edit_or_of_a_candidate_is_one_critic(before: str, after: str) -> None:
    told = [
        DraftCritiqued(path, 1, new_draft(number, f"{number}").ref, Critique(number / 10))
        for number, path in enumerate((before, after), 1)
    ]
    events = recorded("one", [("judge", each) for each in told])
    assert scores_between(events, 1, 2) == (ScoreChange("judge", "score", 0.1, 0.2),)
