"""By which rules a run is decided and folded: those that it began under, for ever. Pure.

Every change of what an event or a plan means is a new version of the rules, recorded in `RunStarted`. Runs of older
versions are folded, decided, checked and imagined by theirs.
"""

from __future__ import annotations

from typing import Final

from redraft.events.errors import CodecError, UnknownRules

RULES: Final = 2
"""The rules that new runs begin under."""


def known(rules: int) -> int:
    """Returns these rules. Raises UnknownRules for those of a later release, CodecError for a number that is none."""
    if rules < 1:
        raise CodecError(f"the run follows rules {rules}; the first are rules 1")
    if rules > RULES:
        raise UnknownRules(rules)
    return rules
