"""Keeping what happened in an encrypted run without its texts: read models lie in the clear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from redraft.events.envelope import Recorded
from redraft.events.texts import ENCRYPTED, texts_in, without
from redraft.projections.projection import Apply, Change


def untold(apply: Apply) -> Apply:
    """Returns a function that gives what `apply` does, but for an event that is kept sealed it sees no texts of it."""

    def applied(recorded: Recorded) -> Iterable[Change]:
        return apply(bare(recorded) if recorded.sealed else recorded)

    return applied


def bare(recorded: Recorded) -> Recorded:
    """The event with `ENCRYPTED` in place of each text that people and models wrote, and of each text's digest."""
    texts: Sequence[tuple[tuple[str | int, ...], str | dict[str, object]]] = list(texts_in(recorded.data))
    data = without(msgspec.json.decode(msgspec.json.encode(recorded.data)), texts, ENCRYPTED)
    return msgspec.structs.replace(recorded, data=msgspec.convert(data, type(recorded.data)))
