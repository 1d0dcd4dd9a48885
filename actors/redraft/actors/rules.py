"""By which rules a run is decided and folded; `redraft.events.rules` has them, for readers of events refuse others."""

from __future__ import annotations

from redraft.events.rules import RULES, known

__all__ = ["RULES", "known"]
