"""Durations as people write them, wherever they do."""

import pytest

from redraft.actors.values import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("2 m", 120), ("1.5h", 5400), ("2d", 172_800), ("1w", 604_800), ("1e3", 1000)],
)
def test_durations_are_read_in_any_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-5", "1:30", "2 minutes", "7y", "2m ", "٣m"])
def test_other_texts_are_no_durations(text: str) -> None:
    assert parse_duration(text) is None
