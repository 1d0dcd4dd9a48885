"""Keeping texts of encrypted runs out of the read models, which lie in the clear."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from redraft.events.envelope import Recorded
from redraft.events.texts import ENCRYPTED, texts_in, without
from redraft.projections.projection import Apply, Change


def without_texts(apply: Apply) -> Apply:
    """Returns a function that does what `apply` does, but gives it no text of an event that is kept encrypted."""

    def applied(recorded: Recorded) -> Iterable[Change]:
        return apply(_bare(recorded) if recorded.sealed else recorded)

    return applied


def _bare(recorded: Recorded) -> Recorded:
    """The event with `ENCRYPTED` in place of each text that people and models wrote, and of each text's digest."""
    texts = list(texts_in(recorded.data))
    data = without(msgspec.json.decode(msgspec.json.encode(recorded.data)), texts, ENCRYPTED)
    return msgspec.structs.replace(recorded, data=msgspec.convert(data, type(recorded.data)))
