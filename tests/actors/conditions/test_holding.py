"""Conditions that can never hold, or always do, whatever the critics of a loop measure."""

from __future__ import annotations

from typing import Any

import pytest

from redraft.actors.conditions.holding import check_reading
from redraft.actors.conditions.text import parse_condition
from redraft.events.errors import ConditionError
from redraft.events.messages.plan import Criterion, Step

CRITICS = (
    Step("critic", "judge", "judge", scale=(1, 10), criteria=(Criterion("accuracy"), Criterion("tone"))),
    Step("critic", "prose", "prose", measures=("words", "coverage?")),
)


@pytest.mark.parametrize(
    "text",
    [
        "words >= 300 and words < 200",
        "words >= 300 and not words >= 300",
        "prose.words == 1 and prose.words == 2",
        "change(words) < 0.1 and change(words) > 0.5",
        "coverage >= 0.8 and coverage < 0.5",
        "errors == 0 and errors >= 1",
        "min(criteria) >= 8 and tone < 6",
        "min(criteria) >= 8 and not tone >= 6",
        "min(criteria) < 5 and tone >= 6 and accuracy >= 6",
        "min(criteria) == 5 and tone > 5 and accuracy > 5",
        "approved and min(criteria) >= 8 and min(criteria) < 7",
    ],
)
def test_what_can_never_hold_is_refused(text: str) -> None:
    with pytest.raises(ConditionError, match="the condition can never hold, whatever is measured"):
        check_reading(parse_condition(text), CRITICS)


@pytest.mark.parametrize(
    "text",
    [
        "words >= 300 or words < 400",
        "words >= 300 or not words >= 300",
        "errors == 0 or errors > 0",
        "min(criteria) < 8 or tone >= 6",
        "min(criteria) >= 5 or tone < 5 or accuracy < 5",
    ],
)
def test_what_always_holds_is_refused(text: str) -> None:
    with pytest.raises(ConditionError, match="the condition always holds, whatever is measured"):
        check_reading(parse_condition(text), CRITICS)


@pytest.mark.parametrize("late", [{"when": parse_condition("accuracy >= 8")}, {"gate": True}, {}])
@pytest.mark.parametrize("text", ["min(criteria) < 8 or tone >= 6", "depth >= 6 or depth < 6"])
def test_what_is_unknown_as_long_as_a_critic_says_nothing_does_not_always_hold(text: str, late: dict[str, Any]) -> None:
    critics = (*CRITICS, Step("critic", "deep", "deep", criteria=(Criterion("depth", scale=(1, 10)),), **late))
    condition = parse_condition(text)
    assert check_reading(condition, critics) == condition


@pytest.mark.parametrize(
    "text",
    [
        "words >= 300 and words < 301",
        "words < -5 or words > 5",
        "coverage >= 0.5 or coverage < 0.8",
        "change(words) < 0.5 or change(words) > 0.1",
        "errors > 0 and errors < 2",
        "tokens > 5 and elapsed > 5",
        "min(criteria) >= 8 and tone < 9",
        "min(criteria) < 5 and tone >= 6",
        "min(criteria) == 5 and tone > 5",
        "min(criteria) < 5 or tone >= 6",
        "tone >= 6 and accuracy < 6",
    ],
)
def test_what_depends_is_taken(text: str) -> None:
    condition = parse_condition(text)
    assert check_reading(condition, CRITICS) == condition
