"""The checker of records finds nothing in what is decided, whatever the plan and the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.projections.random_runs import as_recorded, random_fork, random_run
from tests.properties.test_deciding_properties import driven, examples, plans
from tests.streams import article, book, stored

from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Plan
from redraft.projections.record_check import Row, check_events, check_rows


@examples
@given(plans(), st.data())
def test_nothing_is_found_in_what_was_decided(plan: Plan, data: st.DataObject) -> None:
    run = driven(plan, data)
    assert check_events(as_recorded(run.events, run.times)) == ()


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_nothing_is_found_in_runs_that_people_steer(first: int) -> None:
    for seed in range(first, first + 50):
        run = random_run(seed)
        assert check_events(run.recorded()) == (), f"seed {seed}"


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_nothing_is_found_in_forks(first: int) -> None:
    for seed in range(first, first + 50):
        fork = random_fork(seed)
        assert check_events(fork.recorded()) == (), f"seed {seed}"


def test_nothing_is_found_in_any_beginning_of_a_run() -> None:
    for seed in range(20):
        events = random_run(seed).recorded()
        for length in range(1, len(events) + 1):
            assert check_events(events[:length]) == (), f"seed {seed}, {length} events"


@pytest.mark.parametrize("stream", [article, book])
def test_nothing_is_found_in_a_stream_of_stored_bytes(stream: Callable[[], Sequence[Recorded]]) -> None:
    told = [(event.actor, event.data) for event in stream()]
    rows = [Row(*raw) for raw in stored("r", told)]
    checked = check_rows("r", rows)
    assert checked.findings == ()
    assert len(checked.ids) == len(rows)
