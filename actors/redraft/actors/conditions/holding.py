"""Refuses conditions that can never hold, or always do, on what the critics of a loop declare.

Comparisons that stand together in one group are tried with each number that they name, and with those just below and
above it: if no choice of numbers fits all, a group with `and` can never hold, and one with `or` always does when none
fits their opposites. A criterion is never below `min(criteria)`. A measure or a criterion that may be missing meets
nothing, so that a group about one never always holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from redraft.actors.conditions.printing import name_of, print_condition
from redraft.actors.conditions.reading import (
    check_term,
    compare,
    is_measure,
    lowest_of,
    measures_named,
    scale_meant,
    scale_named,
    shown_scale,
    truth_of_score,
)
from redraft.actors.conditions.text import COMPARE, COUNTS, terms, truth
from redraft.events.errors import ConditionError
from redraft.events.messages.conditions import CONFIDENCE, LOWEST, NAMED, AllOf, AnyOf, Compare, Condition, Not
from redraft.events.messages.plan import Step
from redraft.events.messages.scales import UNIT, to_share

_NEAR: Final = 1e-6
"""The distance from a number of a condition to the values tried beside it: relative for large numbers."""


class _Part(msgspec.Struct, frozen=True):
    """A comparison that stands in a group, or its opposite."""

    term: Compare
    holds: bool


def check_reading(condition: Condition, critics: Sequence[Step]) -> Condition:
    """Returns the condition itself; raises ConditionError for a name that no critic declares, or a number on no scale.

    A number that could be meant on two scales is refused, with both spellings; so is a condition that never or always
    holds.
    """
    found = terms(condition)
    for term in found:
        check_term(term, critics)
    match truth(condition, lambda term: truth_of_score(term, critics), lambda group: _truth_of_group(group, critics)):
        case False:
            why = "its parts exclude each other, or those under `not` always hold"
            raise ConditionError(f"the condition can never hold, whatever is measured; {why}")
        case True:
            raise ConditionError(f"the condition always holds, {_always(found, critics)}; change the number")
        case None:
            return condition


def _always(found: Sequence[Condition], critics: Sequence[Step]) -> str:
    """Returns why a condition always holds: by the scale of a score, if a comparison with one does."""
    for term in found:
        if isinstance(term, Compare) and term.quantity in ("score", "criterion") and truth_of_score(term, critics):
            low, high = shown_scale(term, critics) or UNIT
            what = "confidence is" if term.of.rpartition(".")[2] == CONFIDENCE else "scores are"
            return f"as {what} {low:g}..{high:g}, so {print_condition(term)} decides nothing"
    return "whatever is measured, so it decides nothing"


def _truth_of_group(group: AnyOf | AllOf, critics: Sequence[Step]) -> bool | None:
    """Returns False for `score >= 0.9 and score < 0.2`, True for `score >= 0.2 or score < 0.9`, else None."""
    of_any = isinstance(group, AnyOf)
    named: dict[str, list[_Part]] = {}
    for part in group.conditions:
        term, holds = (part.condition, False) if isinstance(part, Not) else (part, True)
        if isinstance(term, Compare) and not (of_any and _may_be_missing(term, critics)):
            named.setdefault(name_of(term), []).append(_Part(term, holds != of_any))
    marks = {name: parts for name, parts in named.items() if _is_mark(parts[0].term, critics)}
    others = (parts for name, parts in named.items() if name not in marks)
    fits = _marks_fit(marks, critics) and all(any(_numbers_that_fit(parts)) for parts in others)
    return None if fits else of_any


def _may_be_missing(term: Compare, critics: Sequence[Step]) -> bool:
    """Returns whether nothing may be known of a measure: of a change of the first draft, of `coverage?`.

    So it may be of a criterion where a critic may not be asked, or one of several may not be waited for.
    """
    if term.quantity not in NAMED:
        return False
    if not is_measure(term.of, critics):
        spared = any(step.when is not None or step.gate for step in critics)
        return spared or sum(bool(step.criteria) for step in critics) > 1
    own = f"{term.of.rpartition('.')[2]}?"
    return term.quantity == "change" or any(own in step.measures for step in measures_named(term.of, critics))


def _is_mark(term: Compare, critics: Sequence[Step]) -> bool:
    return term.quantity in ("score", "criterion") and not is_measure(term.of, critics)


def _marks_fit(named: dict[str, list[_Part]], critics: Sequence[Step]) -> bool:
    """Returns whether there are scores, as shares, for which all of these parts are as they should be."""
    tried = sorted({0.0, 1.0, *(each for parts in named.values() for each in _shares_near(parts, critics))})
    fitting = {name: {share for share in tried if _fits(parts, share, critics)} for name, parts in named.items()}
    if not all(fitting.values()):
        return False
    known = {each.name for _, each in lowest_of(critics)}
    compared = [shares for name, shares in fitting.items() if name in known]
    free = len(compared) < len(known)
    return LOWEST not in fitting or any(
        all(max(shares) >= least for shares in compared) and (free or any(least in shares for shares in compared))
        for least in fitting[LOWEST]
    )


def _shares_near(parts: Sequence[_Part], critics: Sequence[Step]) -> Iterator[float]:
    for part in parts:
        scale = scale_meant(part.term.value, part.term.top, scale_named(name_of(part.term), critics)) or UNIT
        share = to_share(part.term.value, scale)
        yield from (each for each in (share - _NEAR, share, share + _NEAR) if 0 <= each <= 1)


def _fits(parts: Sequence[_Part], share: float, critics: Sequence[Step]) -> bool:
    return all(compare(part.term, share, critics) == part.holds for part in parts)


def _numbers_that_fit(parts: Sequence[_Part]) -> Iterator[bool]:
    """Yields True for each number near those of the parts with which all are as they should be."""
    whole, signed = parts[0].term.quantity in COUNTS, parts[0].term.quantity == "criterion"
    for value in (0.0, *(part.term.value for part in parts)):
        near = 1.0 if whole else max(1.0, abs(value)) * _NEAR
        for number in (value - near, value, value + near):
            if signed or number >= 0:
                yield all(COMPARE[part.term.operator](number, part.term.value) == part.holds for part in parts)
