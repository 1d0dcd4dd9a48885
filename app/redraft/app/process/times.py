"""Times as people write them: a moment of the calendar, or how long ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from redraft.actors.values import parse_duration, shown
from redraft.events.errors import InputError


def moment_of(option: str, what: str) -> datetime | None:
    """Returns the time that an option names, by the clock of now, and None for an empty one. Raises as `moment`."""
    return moment(option, datetime.now(UTC), what) if option else None


def moment(text: str, now: datetime, what: str) -> datetime:
    """The time (UTC) of `2026-01-03`, `2026-01-03T10:00Z`, or of `7d`, `2h`, `30m`, `45s`, `1w` before `now`.

    A time without a zone is UTC. Raises InputError, which names `what` was given, as `--since`.
    """
    trimmed = text.strip()
    ago = parse_duration(trimmed) if trimmed[-1:].isalpha() else None
    try:
        if ago is not None:
            return now - timedelta(seconds=ago)
        found = datetime.fromisoformat(trimmed)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        forms = "2026-01-03, 2026-01-03T10:00Z, or how long ago, such as 7d, 2h or 30m"
        raise InputError(f"{what} {shown(text)} is not a time; write {forms}") from None
