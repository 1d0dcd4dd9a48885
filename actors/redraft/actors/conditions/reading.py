"""Reads the numbers of conditions on the scales that critics declare, and checks the names of criteria and measures.

A number is read on the declared scale or, where it cannot lie on that, as a share 0..1; where it could be either, its
scale is said: `score >= 1 of 10`, `score >= 100 of 100`. Without a declared scale every score is a share. A measure is
read as it is; where several critics count it, its name says whose is meant: `judge.words`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from redraft.actors.conditions.printing import name_of, print_condition, print_number, print_points
from redraft.actors.conditions.text import COMPARE, WORDS, is_reference, terms
from redraft.events.errors import ConditionError, suggest
from redraft.events.messages.conditions import (
    CONFIDENCE,
    LIMITS,
    LOWEST,
    NAMED,
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Not,
    Oscillating,
    Plateau,
)
from redraft.events.messages.plan import Criterion, Node, Parallel, Repeat, Step, measure_name, members, steps_of
from redraft.events.messages.scales import UNIT, Scale, on_scale, to_share

SCORE: Final = "score"
"""The name of the joined score and, after the name of a critic, of its own."""

_PERCENT: Final[Scale] = (0.0, 100.0)
_CHANGE: Final = ", or write change({name}) < 0.1"


def critics_of(nodes: Sequence[Node]) -> tuple[Step, ...]:
    """Returns the critics among these nodes, of panels too, and judges; if there are none, those inside of loops."""
    own: list[Step] = []
    for node in nodes:
        if isinstance(node, Step):
            if node.role == "critic":
                own.append(node)
        elif isinstance(node, Parallel):
            own += [step for step in members(node) if step.role == "critic"]
    return tuple(own) or tuple(step for _, step in steps_of(nodes, own=True) if step.role == "critic")


def declares(critics: Iterable[Step]) -> bool:
    """Returns whether any of these critics declares a scale or criteria."""
    for step in critics:  # noqa: SIM110  asked at each decision; a generator takes four times as long
        if step.scale is not None or step.criteria:
            return True
    return False


def scale_of(criterion: Criterion, step: Step) -> Scale | None:
    """Returns the scale of a criterion; None for 0..1."""
    return criterion.scale or step.scale


def _scales(name: str, critics: Sequence[Step]) -> Iterator[Scale | None]:
    """Yields the scales of all that this name stands for; none for a name that nobody declares."""
    critic, dot, own = name.rpartition(".")
    those = [step for step in critics if not dot or step.name == critic]
    if own == CONFIDENCE:
        yield from (None for _ in those)
    elif own == SCORE:
        judging = [step for step in those if not step.condition] or those
        yield from (step.scale for step in [step for step in judging if not step.gate] or judging)
    elif own == LOWEST:
        yield from (scale_of(each, step) for step, each in lowest_of(those))
    else:
        for step in those:
            yield from (scale_of(each, step) for each in step.criteria if own == each.name)


def lowest_of(critics: Sequence[Step]) -> list[tuple[Step, Criterion]]:
    """Returns the criteria of which `min(criteria)` is the lowest: those of gates count only on their own."""
    found = [(step, each) for step in critics for each in step.criteria]
    return [(step, each) for step, each in found if not step.gate] or found


def measures_named(name: str, critics: Iterable[Step]) -> list[Step]:
    """Returns the critics that declare the measure of this name."""
    critic, dot, own = name.rpartition(".")
    return [
        step
        for step in critics
        if step.measures and (not dot or step.name == critic) and own in map(measure_name, step.measures)
    ]


def is_measure(name: str, critics: Iterable[Step]) -> bool:
    """Returns whether a name that critics declare is that of a measure."""
    return bool(measures_named(name, critics))


def scale_named(name: str, critics: Sequence[Step]) -> Scale | None:
    """Returns the scale of what is named, such as `score` or `judge.accuracy`; None for 0..1, or if scales differ."""
    if not declares(critics):
        return None
    found = set(_scales(name, critics))
    scale = found.pop() if len(found) == 1 else None
    return None if scale == UNIT else scale


def compare(term: Compare, share: float, critics: Sequence[Step]) -> bool:
    """Returns whether a comparison of a score or criterion holds for this share, read on its scale."""
    scale = scale_meant(term.value, term.top, scale_named(name_of(term), critics))
    return COMPARE[term.operator](share if scale is None else on_scale(share, scale), term.value)


def shown_scale(term: Compare, critics: Sequence[Step]) -> Scale | None:
    """Returns the scale on which people are shown what a comparison measures."""
    return scale_meant(term.value, term.top, scale_named(name_of(term), critics))


def scale_meant(value: float, top: float | None, scale: Scale | None) -> Scale | None:
    """Returns the scale on which a number is read, beside what declares this scale; None for 0..1."""
    if top is not None:
        return scale if scale is not None and top == scale[1] else _PERCENT if top == _PERCENT[1] else UNIT
    if scale is None:
        return None
    return UNIT if 0 <= value <= 1 and not scale[0] <= value <= scale[1] else scale


def print_until(loop: Repeat) -> str:
    """Returns the condition of a loop as people are shown it: with `of 1` where a share is meant beside a scale."""
    return print_condition(_with_shares(loop.until, critics_of(loop.body)))


def _with_shares(condition: Condition, critics: Sequence[Step]) -> Condition:
    match condition:
        case Compare(quantity="score" | "criterion", top=None) if not is_measure(condition.of, critics):
            scale = scale_named(name_of(condition), critics)
            is_share = scale is not None and scale_meant(condition.value, None, scale) == UNIT
            return replace(condition, top=1.0) if is_share else condition
        case AnyOf() | AllOf():
            return replace(condition, conditions=tuple(_with_shares(part, critics) for part in condition.conditions))
        case Not():
            return replace(condition, condition=_with_shares(condition.condition, critics))
        case _:
            return condition


def share_of_gain(
    gain: float, top: float | msgspec.UnsetType | None, default: float, name: str, critics: Sequence[Step]
) -> float:
    """Returns the share, 0..1, that a gain or margin is of the scale of what is named; the default is one of any."""
    scale = scale_named(name, critics)
    if top is not None and top is not msgspec.UNSET:
        low, high = scale if scale is not None and top == scale[1] else (0.0, float(top))
        return round(gain / (high - low), 9)
    if scale is None or gain == default or gain > scale[1] - scale[0]:
        return gain
    return round(gain / (scale[1] - scale[0]), 9)


def print_gain(term: Plateau, critics: Sequence[Step]) -> str:
    """Returns the gain of a plateau as people are shown it: with the scale on which it is read, if it is none of 0..1.

    The default is a share of any scale.
    """
    name = SCORE if term.of is msgspec.UNSET else term.of
    scale = scale_named(name, critics)
    is_share = share_of_gain(term.gain, term.top, Plateau().gain, name, critics) == term.gain
    return print_points(term.gain, term.top if scale is None or is_share or term.top is not msgspec.UNSET else scale[1])


def check_term(term: Condition, critics: Sequence[Step]) -> None:
    """Raises ConditionError for a name that no critic declares, and for a number on no scale, or on two."""
    match term:
        case Compare() if term.quantity in NAMED and is_measure(term.of, critics):
            _check_measure(term, critics)
        case Compare(quantity="change"):
            _check_changes(term, critics)
        case Compare(quantity="score" | "criterion"):
            _check_compare(term, critics)
        case Plateau():
            name = SCORE if term.of is msgspec.UNSET else check_name_declared(term.of, critics, _CHANGE)
            check_gain("plateau: gain", "gain=", term.gain, term.top, Plateau().gain, name, critics)
        case Oscillating() if term.of is not msgspec.UNSET:
            check_name_declared(term.of, critics, _CHANGE)
        case _:
            pass


def check_names(condition: Condition, critics: Sequence[Step]) -> None:
    """Raises ConditionError for a comparison of what none of these critics declares, with the nearest."""
    for term in terms(condition):
        if isinstance(term, Compare) and term.quantity in NAMED and not is_measure(term.of, critics):
            _require_declared(term.of, critics)


def _require_declared(name: str, critics: Sequence[Step]) -> None:
    """Raises ConditionError when what is compared is nothing that a critic here declares."""
    check_name_declared(name, critics, others=(*_all_measures(critics), *WORDS))


def check_name_declared(name: str, critics: Sequence[Step], instead: str = "", others: Sequence[str] = ()) -> str:
    """Returns the name itself; raises ConditionError, with the nearest, when it is no criterion of a critic here.

    `instead` is what may be written of a measure, `others` are the words that may stand there as well.
    """
    if is_reference(name) and any(True for _ in _scales(name, critics)):
        return name
    if is_measure(name, critics):
        raise ConditionError(f"{name} is a measure, which has no scale; name a criterion{instead.format(name=name)}")
    known = [each.name for step in critics for each in step.criteria]
    of_one = [f"{step.name}.{each}" for step in critics for each in [*(one.name for one in step.criteria), SCORE]]
    lowest = [LOWEST] if known else []
    there = tuple(dict.fromkeys((*known, *lowest, *others, CONFIDENCE, *of_one)))
    of_drafts = (each for each in there if each not in (*LIMITS, "outputs"))  # the others stand in `until` alone
    remedy = suggest(name, there, f"there are {', '.join(of_drafts)}")
    if not known and not _all_measures(critics) and "did you mean" not in remedy:
        remedy = "declare criteria with @critic(criteria={…}), or beside the critic in the plan; measures as well"
        remedy += "; a condition of your own has to stand in the loop's body" if others else ""
    what = "criterion or measure" if others else "criterion"
    raise ConditionError(f"{name} is no {what} that a critic here declares; {remedy}")


def _all_measures(critics: Sequence[Step]) -> tuple[str, ...]:
    """Returns the names of all measures as conditions can use them."""
    own = [(step.name, measure_name(each)) for step in critics for each in step.measures]
    return tuple(dict.fromkeys([*(name for _, name in own), *(f"{critic}.{name}" for critic, name in own)]))


def _check_measure(term: Compare, critics: Sequence[Step]) -> None:
    written, those = print_condition(term), measures_named(term.of, critics)
    name = term.of.rpartition(".")[2]
    if term.top is not None:
        raise ConditionError(f"{written} names a scale, and {name} is a measure, which has none; write one number")
    whose = [f"{step.name}.{name}" for step in those]
    if len(set(whose)) < len(whose):
        raise ConditionError(
            f"{written}: two critics here are named {whose[0].partition('.')[0]}; give one another name"
        )
    if len(whose) > 1:
        raise ConditionError(f"{written}: {name} is measured by several critics; write {' or '.join(whose)}")
    if any(True for _ in _scales(term.of, critics)):
        raise ConditionError(f"{written}: {name} is a criterion here and a measure; write {whose[0]}, or rename one")


def _check_changes(term: Compare, critics: Sequence[Step]) -> None:
    """Raises ConditionError for a change of what is no measure."""
    _require_declared(term.of, critics)
    raise ConditionError(f"change({term.of}): {term.of} is a criterion; write plateau(gain=0.01, over=2, of={term.of})")


def _check_compare(term: Compare, critics: Sequence[Step]) -> None:
    name = name_of(term)
    if term.quantity == "criterion":
        _require_declared(name, critics)
    scale, written, value = scale_named(name, critics), print_condition(term), term.value
    if term.top is not None:
        _check_top(term, critics)
    elif scale is None:
        if not 0 <= value <= 1:
            raise ConditionError(_no_share(term, critics))
    else:
        _check_on_scale(term, scale)
    if truth_of_score(term, critics) is False:
        low, high = scale_meant(value, term.top, scale) or UNIT
        what = f"{name} is" if name.endswith(CONFIDENCE) else "scores are"
        raise ConditionError(f"{written} can never hold, as {what} {low:g}..{high:g}; change the number")


def _no_share(term: Compare, critics: Sequence[Step]) -> str:
    """Returns why a comparison cannot hold of a share, and what may be written in its place."""
    name, written = name_of(term), print_condition(term)
    own = name.rpartition(".")[2]
    if own == CONFIDENCE:
        return f"{name} is 0..1, so {written} is out of range; write a number such as 0.9"
    if not _scales_differ(name, critics):
        return f"scores are 0..1, so {written} is out of range; write a number such as 0.9, or declare a scale"
    fault = f"the scales of {name} differ here, so it is a share, 0..1, and {written} is out of range"
    return f"{fault}; write a number such as 0.9{_of_one(term, critics)}"


def _scales_differ(name: str, critics: Sequence[Step]) -> bool:
    return len({each or UNIT for each in _scales(name, critics)}) > 1


def _of_one(term: Compare, critics: Sequence[Step]) -> str:
    """Returns how a comparison may be written of one critic, on whose scale its number lies; empty if of none."""
    name, points = name_of(term), print_points(term.value, term.top)
    own = name.rpartition(".")[2]
    those = [step for step in critics if own != LOWEST and _fits(term, own, step)]
    named = " or ".join(f"{step.name}.{own} {term.operator} {points}" for step in those)
    return named and f", or name a critic: {named}"


def _fits(term: Compare, name: str, step: Step) -> bool:
    """Returns whether the number of a comparison lies on the scale that this critic has for what is named."""
    scales = (each or UNIT for each in _scales(name, (step,)))
    return any(low <= term.value <= high and term.top in (None, high) for low, high in scales)


def _no_such_scale(written: str, name: str, critics: Sequence[Step]) -> str:
    """Returns that a number names a scale on which what is named cannot be read, and those on which it can."""
    if _scales_differ(name, critics):
        return f"{written} names one scale, and those of {name} differ here; write {_tops(None)}"
    return f"{written} names no scale that is declared here; write {_tops(scale_named(name, critics))}"


def _check_top(term: Compare, critics: Sequence[Step]) -> None:
    name, written = name_of(term), print_condition(term)
    low, high = scale_meant(term.value, term.top, scale_named(name, critics)) or UNIT
    if term.top != high:
        raise ConditionError(f"{_no_such_scale(written, name, critics)}{_of_one(term, critics)}")
    if not low <= term.value <= high:
        raise ConditionError(f"scores are {low:g}..{high:g}, so {written} is out of range; change the number")


def _tops(scale: Scale | None) -> str:
    """Returns what may be said of the scale of a number: `of 10, 100 or 1`."""
    *others, last = dict.fromkeys(f"{top:g}" for top in (*([scale[1]] if scale is not None else []), 100, 1))
    return f"of {', '.join(others)} or {last}"


def _check_on_scale(term: Compare, scale: Scale) -> None:
    (low, high), value = scale, term.value
    inside, share = low <= value <= high, 0 <= value <= 1
    if inside and share and abs(to_share(value, scale) - value) > 1e-9:
        raise ConditionError(_both(f"{name_of(term)} {term.operator} ", print_condition(term), value, high))
    if not inside and not share:
        raise ConditionError(
            f"scores are {low:g}..{high:g}, so {print_condition(term)} is out of range; change the number"
        )


def _both(before: str, written: str, value: float, high: float) -> str:
    points = f"{before}{print_number(value)} of {print_number(high)}"
    share = f"{before}{_share_beside(value, high)}"
    return f"{written} could be meant on two scales; write {points}, or {share}"


def _share_beside(value: float, high: float) -> str:
    """Returns a share in percent, `50 of 100`; as `0.5 of 1` where a number of 100 is one of the declared scale."""
    if high == _PERCENT[1]:
        return f"{print_number(value)} of 1"
    return f"{print_number(round(value * _PERCENT[1], 9))} of 100"


def check_gain(
    what: str,
    before: str,
    gain: float,
    top: float | msgspec.UnsetType | None,
    default: float,
    name: str,
    critics: Sequence[Step],
) -> None:
    """Raises ConditionError for a gain or margin of what is named that is larger than its scale, or meant on two."""
    scale = scale_named(name, critics)
    span = scale[1] - scale[0] if scale is not None else 1.0
    said = None if top is None or top is msgspec.UNSET else float(top)
    if said is not None:
        known = {1.0: 1.0, 100.0: 100.0, **({scale[1]: span} if scale is not None else {})}
        if said not in known:
            raise ConditionError(_no_such_scale(f"{what} {print_points(gain, said)}", name, critics))
        span = known[said]
    elif scale is not None and gain not in (0, default) and gain <= min(1.0, span) and span != 1.0:
        raise ConditionError(_both(before, f"{what} {print_number(gain)}", gain, scale[1]))
    if not 0 <= gain <= max(span, 1.0 if said is None else 0.0):
        example = _part_of(span, said, scale)
        raise ConditionError(f"{what} is {print_points(gain, said)}; write a number, 0 to {span:g}, such as {example}")


def _part_of(span: float, said: float | None, scale: Scale | None) -> str:
    """Returns an example of a gain: a small part of the scale, which names it."""
    top = said if said is not None else scale[1] if scale is not None else 1.0
    part = f"{1 if span >= 2 else span / 100:g}"
    return part if top == 1 else f"{part} of {top:g}"


def truth_of_score(term: Compare, critics: Sequence[Step]) -> bool | None:
    """Returns True or False for a comparison of a score that always or never holds on its scale; else None."""
    if is_measure(term.of, critics):
        return None
    low, high = scale_meant(term.value, term.top, scale_named(name_of(term), critics)) or UNIT
    if term.operator == "==":
        return None if low <= term.value <= high else False
    at_low, at_high = (COMPARE[term.operator](end, term.value) for end in (low, high))
    return at_low if at_low == at_high else None
