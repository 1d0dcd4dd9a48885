"""Times in rows: what was stored can be read, whatever time an event names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.streams import START

from redraft.projections.engine.projection import moment, seconds, seconds_after

LAST = datetime.max.replace(tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=UTC)
WEST, EAST = timezone(timedelta(hours=-23, minutes=-59)), timezone(timedelta(hours=23, minutes=59))

NO_CLOCK_SHOWS = [LAST, FIRST, LAST.replace(tzinfo=WEST), FIRST.replace(tzinfo=EAST)]


@pytest.mark.parametrize("time", NO_CLOCK_SHOWS)
def test_a_time_at_the_end_of_the_calendar_is_read_as_one_that_every_zone_has_and_that_can_be_added_to(
    time: datetime,
) -> None:
    found = moment(seconds(time))
    assert abs(found - time) < timedelta(days=367)
    for zone in (WEST, EAST):
        found.astimezone(zone)
    month = timedelta(days=31)
    assert found - month < found < found + month
    assert seconds(found) == seconds(time), "the next page begins where this one ended"


@pytest.mark.parametrize("stored", [253402300800.0, 253402343999.0, -62135640000.0, 1e300, -1e300, float("inf")])
def test_what_an_earlier_release_or_a_stranger_stored_can_be_read(stored: float) -> None:
    assert moment(stored).tzinfo == UTC


@pytest.mark.parametrize("time", [START, START.replace(year=1969), START.replace(year=2200, microsecond=999_999)])
def test_all_other_times_are_exact(time: datetime) -> None:
    assert moment(seconds(time)) == time
    assert moment(seconds_after(time, 0.25)) == time + timedelta(seconds=0.25)


@pytest.mark.parametrize("wait", [60.0, 1e12, 1e300])
def test_nothing_is_later_than_the_last_time(wait: float) -> None:
    assert seconds_after(LAST, wait) == seconds(LAST)
