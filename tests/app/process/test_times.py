"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from redraft.app.process.times import moment
from redraft.events.errors import InputError

NOW = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-01-03", datetime(2026, 1, 3, tzinfo=UTC)),
        ("2026-01-03T10:00Z", datetime(2026, 1, 3, 10, tzinfo=UTC)),
        (" 2026-01-03 10:00:01.5 ", datetime(2026, 1, 3, 10, 0, 1, 500000, tzinfo=UTC)),
        ("2026-01-03T10:00+02:00", datetime(2026, 1, 3, 8, tzinfo=UTC)),
        ("7d", NOW - timedelta(days=7)),
        ("2h", NOW - timedelta(hours=2)),
        ("30m", NOW - timedelta(minutes=30)),
        ("45s", NOW - timedelta(seconds=45)),
        ("1w", NOW - timedelta(weeks=1)),
    ],
)
def test_a_moment_is_of_the_calendar_or_how_long_ago(text: str, meant: datetime) -> None:
    assert moment(text, NOW, "--since") == meant


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "7", "d", "-7d", "7y", "2026-13-01", "2026-01-03T25:00", "999999999w", "0001-01-01T00:00+09:00"],
)
def test_what_is_no_time_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(InputError, match=r"--since '.*' is not a time; write 2026-01-03"):
        moment(text, NOW, "--since")
