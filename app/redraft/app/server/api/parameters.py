"""Parameters that several paths share."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from litestar.params import HeaderParameter, PathParameter, QueryParameter

MOST: Final = 1_000
"""The most rows of one answer."""

RunPath: TypeAlias = Annotated[str, PathParameter(description="A run's id, the start or end of it, or `last`.")]
Limit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=MOST, description="At most so many.")]
At: TypeAlias = Annotated[
    str, QueryParameter(description="After its first N events, or at a time: 7, 2026-01-03T10:00Z, 2h.")
]
Since: TypeAlias = Annotated[str, QueryParameter(description="At this time or later: 2026-01-03T10:00Z, 7d, 2h.")]
Until: TypeAlias = Annotated[str, QueryParameter(description="Before this time.")]
Key: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="The same key is the same run, however often it is submitted.",
    ),
]
