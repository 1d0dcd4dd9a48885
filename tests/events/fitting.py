"""Rows that the databases' rules let in wherever the library's own recorders would: for comparing ours with theirs."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import count

from eventsourcing.persistence import StoredEvent
from hypothesis import strategies as st

from redraft.events.messages.codec import GENESIS

Drawn = tuple[str, int, str, bytes]
"""Run, version, topic, and something that the bytes are to hold."""

ROWS = st.lists(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 6), st.sampled_from(["t1", "t2"]), st.binary(max_size=20)),
        min_size=1,
        max_size=5,
    ),
    max_size=8,
)
"""Groups of what is drawn."""


class Fitting:
    """Makes of what was drawn rows that follow what is there, or stand where another is there already."""

    def __init__(self, mark: str = "") -> None:
        self._mark = mark
        self._last: dict[str, int] = {}
        self._ids = count()

    def rows(self, group: Sequence[Drawn]) -> list[StoredEvent]:
        last = dict(self._last)
        rows: list[StoredEvent] = []
        for run, drawn, topic, content in group:
            version = min(drawn, last.get(run, 0) + 1)
            last[run] = max(last.get(run, 0), version)
            rows.append(StoredEvent(self._mark + run, version, topic, self._state(run, version, content)))
        return rows

    def taken(self, rows: Sequence[StoredEvent]) -> None:
        """These rows are there from now on."""
        for row in rows:
            run = str(row.originator_id).removeprefix(self._mark)
            self._last[run] = max(self._last.get(run, 0), row.originator_version)

    def _state(self, run: str, version: int, content: bytes) -> bytes:
        previous = GENESIS if version == 1 else _hash(run, version - 1)
        text = (
            f'{{"hash":"{_hash(run, version)}","id":"{self._mark}{next(self._ids)}","time":"","previous":"{previous}",'
        )
        return text.encode() + content.hex().encode()


def _hash(run: str, version: int) -> str:
    return sha256(f"{run}{version}".encode()).hexdigest()
