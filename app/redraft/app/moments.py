"""Times as people write them: a moment of the calendar, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from redraft.actors.values import shown
from redraft.events.errors import InputError

_AGO: Final = re.compile(r"(\d{1,9})\s*(s|m|h|d|w)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment_of(option: str, what: str) -> datetime | None:
    """Returns the time that an option names, by the clock of now, and None for an empty one. Raises as `moment`."""
    return moment(option, datetime.now(UTC), what) if option else None


def moment(text: str, now: datetime, what: str) -> datetime:
    """The time (UTC) of `2026-01-03`, `2026-01-03T10:00Z`, or of `7d`, `2h`, `30m`, `45s`, `1w` before `now`.

    A time without a zone is UTC. Raises InputError, which names `what` was given, as `--since`.
    """
    given = text.strip()
    try:
        if ago := _AGO.fullmatch(given):
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = datetime.fromisoformat(given)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        forms = "2026-01-03, 2026-01-03T10:00Z, or how long ago, such as 7d, 2h or 30m"
        raise InputError(f"{what} {shown(text)} is no time; write {forms}") from None
