"""What steps used, added up."""

from __future__ import annotations

import msgspec
import pytest

from redraft.events.messages.usage import MIXED, MOST, PLAUSIBLE, Usage


def test_numbers_add_up_and_models_are_named_once():
    first = Usage(120, 0.25, 1, 0, 100, 20, 1.5, "openai:a", "p1", "USD")
    second = Usage(12, 0.5, 2, 2, 10, 2, 0.5, "openai:b", "p2", "USD")
    total = first + second + first
    assert total == Usage(252, 1.0, 4, 2, 210, 42, 3.5, "openai:a, openai:b", "p1, p2", "USD")


def test_nothing_changes_nothing():
    used = Usage(120, 0.25, 1, currency="USD")
    assert Usage() + used == used + Usage() == used
    assert Usage().is_nothing
    assert not Usage(calls=1).is_nothing


def test_amounts_in_two_currencies_are_not_passed_off_as_one():
    assert (Usage(cost=1, currency="USD") + Usage(cost=1, currency="EUR")).currency == MIXED


def test_a_sum_can_always_be_recorded():
    most = Usage(MOST, MOST, MOST, MOST, MOST, MOST, MOST)
    assert most + most == most
    assert msgspec.json.decode(msgspec.json.encode(most + most), type=Usage) == most


def test_what_one_outcome_cannot_have_used_is_said():
    assert Usage(PLAUSIBLE, PLAUSIBLE, PLAUSIBLE).fault == ""
    said = "calls is 2,000,000,000,000, and a usage is a number from 0 to 1,000,000,000,000"
    assert Usage(calls=2 * PLAUSIBLE).fault == said
    assert "seconds is nan" in Usage(seconds=float("nan")).fault


@pytest.mark.parametrize("raw", [b'{"tokens":-1}', b'{"cost":-0.5}', b'{"calls":-1}', b'{"seconds":-1}'])
def test_less_than_nothing_cannot_be_used(raw: bytes):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(raw, type=Usage)
