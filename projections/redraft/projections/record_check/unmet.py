"""The drafts that did not end a loop: why it went on, as the checker reads it."""

from __future__ import annotations

import msgspec

from redraft.events.messages.conditions import Condition
from redraft.events.messages.scales import Scale
from redraft.projections.record_check.ratings import Rated


class Unmet(msgspec.Struct, frozen=True):
    """A draft that its loop looked at and that did not end it.

    `score` (0..1) is the joined score, None without one, shown on `scale`; `gates` are those that did not pass it.
    `until` is the loop's condition as it was then, None where the plan of a fork's parent said it.
    """

    draft: int
    score: float | None
    scale: Scale | None
    gates: tuple[str, ...]
    until: Condition | None


def unmet_by(draft: Rated | None, until: Condition | None) -> Unmet | None:
    """Returns what is known of a draft that did not end its loop; None for one that nobody has rated."""
    if draft is None or draft.rating is None or draft.rating.broken:
        return None
    gates = (name.rpartition(".")[0] for name in draft.rating.own if name.endswith(".score"))
    failed = tuple(dict.fromkeys(gates)) if draft.rating.gate == "failed" else ()
    return Unmet(draft.ref.version, *draft.shown, failed, until)
