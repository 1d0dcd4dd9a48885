"""Evaluates the conditions of loops, by the rules that docs/workflows.md explains."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET

from redraft.events.messages.conditions import (
    CONFIDENCE,
    LOWEST,
    AllOf,
    AnyOf,
    Approved,
    Compare,
    Condition,
    Exit,
    Not,
    Oscillating,
    Plateau,
    State,
)
from redraft.events.messages.content import Critique
from redraft.events.messages.domain_events import Outcome
from redraft.events.messages.plan import RULES, Node, Parallel, Step, steps_of
from redraft.events.messages.run_state import Value, Values
from redraft.events.messages.scales import UNIT, Scale, on_scale
from redraft.projections.record_check.counts import count_of, is_counted, share_of_change
from redraft.projections.record_check.ratings import Rating

_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
}
_LIMITS: Final[dict[str, Outcome]] = {"tokens": "over_budget", "cost": "over_budget", "elapsed": "timed_out"}
_STRONGEST: Final[tuple[Outcome, ...]] = ("over_budget", "timed_out", "oscillating", "plateaued")
"""The outcome when several limits of a condition are reached: the first of these."""

NO_VALUES: Final[Values] = {}

Word: TypeAlias = Literal["yes", "no", "unknown", ""]
"""The value of a term for a draft: None, or `unknown` where it asks for a measure that no critic has given."""

Atom = Compare | Approved | Plateau | Oscillating | Exit | State


class Trail(msgspec.Struct, frozen=True):
    """A criterion's running best scores, and its latest."""

    peaks: tuple[float, ...] = ()
    latest: tuple[float, ...] = ()


def judging_steps(body: Sequence[Node]) -> tuple[Step, ...]:
    """Returns the critics of a body, in rows, panels and as judges; those of loops inside if it has no others."""
    found: list[Step] = []
    for node in body:
        inside = [node] if isinstance(node, Step) else []
        if isinstance(node, Parallel):
            inside = [*node.steps, *([node.judge] if node.judge else [])]
        found += [step for step in inside if step.role == "critic"]
    return tuple(found or (step for _, step in steps_of(body, own=True) if step.role == "critic"))


def scale_for(name: str, critics: Sequence[Step]) -> Scale | None:
    """Returns the scale that all critics give to what is named; None for 0..1, or if they have several."""
    who, _, what = name.rpartition(".")
    asked = [step for step in critics if who in ("", step.name)]
    found: set[Scale] = set()
    if what == "score" or not what:
        judging = [step for step in asked if not step.condition]
        found = {step.scale or UNIT for step in ([step for step in judging if not step.gate] or judging)}
    elif what != CONFIDENCE:
        wanted = [(step, each) for step in asked for each in step.criteria if what in (LOWEST, each.name)]
        if what == LOWEST:
            wanted = [(step, each) for step, each in wanted if not step.gate] or wanted
        found = {each.scale or step.scale or UNIT for step, each in wanted}
    return next(iter(found)) if len(found) == 1 and found != {UNIT} else None


def _read_on(value: float, top: float | None, scale: Scale | None) -> Scale | None:
    """Returns the scale on which a number of a condition is read; None for a share as it is."""
    if top is not None:
        return scale if scale and scale[1] == top else (0.0, 100.0) if top == 100 else UNIT
    if scale is None or scale[0] <= value <= scale[1]:
        return scale
    return UNIT if 0 <= value <= 1 else scale


def share_of_rise(
    rise: float, top: float | msgspec.UnsetType | None, usual: float, name: str, critics: Sequence[Step]
) -> float:
    """Returns a gain or a margin as a share of its scale; the usual one is a share of every scale."""
    scale = scale_for(name, critics)
    span = scale[1] - scale[0] if scale else 1.0
    if isinstance(top, int | float):
        return round(rise / (span if scale and scale[1] == top else top), 9)
    return rise if scale is None or rise == usual or rise > span else round(rise / span, 9)


def have_scales(critics: Sequence[Step]) -> bool:
    """Returns whether any of these critics declares a scale or criteria."""
    return any(step.scale or step.criteria for step in critics)


def meets(
    condition: Condition, rating: Rating, critics: tuple[Step, ...], rules: int, values: Values = NO_VALUES
) -> bool:
    """Returns whether a condition about one draft holds; `values` are those of the run's state."""
    measured = Measured(rating, "", 0, 0.0, 0, 0.0, (), (), {}, critics, rules=rules, values=values)
    return _holds(condition, measured, limits=True) is True


def is_left_open(name: str, rating: Rating, critics: Sequence[Step], rules: int) -> bool:
    """Returns whether a criterion has no score; by rules 1 to 5 only where a critic may have been left out.

    Of a critic that judged, an absent confidence is 0. The lowest of all is open as long as one of them is.
    """
    if rules < 6:
        return any(step.when is not None for step in critics) and not rating.has(name)
    critic, _, what = name.rpartition(".")
    if what == CONFIDENCE:
        return critic != "" and f"{critic}.score" not in rating.own
    return not rating.has(name) or (name == LOWEST and rating.silent)


def note_silence(rating: Rating, judges: Sequence[Node]) -> Rating:
    """Returns the rating, `silent` if a criterion of these critics, gates aside, has no score in it."""
    critics = [step for _, step in steps_of(judges) if not step.gate]
    wanted = {criterion.name for step in critics for criterion in step.criteria}
    return msgspec.structs.replace(rating, silent=not wanted <= rating.marks.keys())


def rating_of(version: int, critique: Critique, rules: int, step: Step) -> Rating:
    """Returns the rating of one critique, recorded at this version. By rules 1 and 2 every critique has a score."""
    said, errors, scored = critique.approved, len(critique.errors), critique.scored or rules < 3
    marks: dict[str, float] = {each.name: each.score for each in critique.criteria}
    if critique.confidence is not None:
        marks[CONFIDENCE] = critique.confidence
    own = {f"{step.name}.{name}": value for name, value in [*marks.items(), ("score", critique.score)]}
    rating = Rating(critique.score, errors, said, (version,), "", scored, step.scale, marks, own)
    if critique.measures:
        counts = {(step.name, name): value for name, value in critique.measures.items()}
        rating = msgspec.structs.replace(rating, counts=counts)
    if step.condition:
        return msgspec.structs.replace(rating, aside=True)
    if not step.gate:
        return rating
    enough = rating.score >= 1 and errors == 0 if step.passes is None else meets(step.passes, rating, (step,), rules)
    if said is True or (said is None and enough):
        return msgspec.structs.replace(rating, gate="passed")
    return msgspec.structs.replace(rating, approved=False, gate="failed")


def memorable(condition: Condition) -> set[str]:
    """Returns the criteria whose earlier scores the condition tests."""
    return {
        str(each.of) for each in atoms(condition) if isinstance(each, Plateau | Oscillating) and each.of is not UNSET
    }


class Measured(msgspec.Struct, frozen=True):
    """The values that a condition may test: `peaks` are the running best scores, `seen` the hashes judged before.

    `trails` are the running best and the latest scores of criteria; `critics` those whose scales count. `earlier` is
    the rating of the draft judged before. `values` are those of the run's state that are about the current draft.
    """

    rating: Rating
    sha256: str
    outputs: int
    elapsed: float
    tokens: int
    cost: float
    peaks: tuple[float, ...]
    seen: tuple[str, ...]
    trails: dict[str, Trail] = {}
    critics: tuple[Step, ...] = ()
    earlier: Rating | None = None
    rules: int = RULES
    values: Values = {}


def loop_outcome(condition: Condition, measured: Measured, *, own_word: bool) -> Outcome | None:
    """Returns how the loop ends here; None when it goes on. With `own_word` a critic's approval is enough."""
    approved = measured.rating.approved
    if own_word and approved is True:
        return "accepted"
    if _holds(condition, measured, limits=True) is not True:
        return None
    if approved is not False and _holds(condition, measured, limits=False):
        return "accepted"
    limits = [each for each in atoms(condition) if _outcome_of(each) in _STRONGEST]
    reached = {_outcome_of(each) for each in limits if _is_true(each, measured)}
    return next((each for each in _STRONGEST if each in reached), None)


def atoms(condition: Condition) -> list[Atom]:
    """Returns the terms of a condition that contain no others."""
    match condition:
        case AnyOf(conditions) | AllOf(conditions):
            return [atom for each in conditions for atom in atoms(each)]
        case Not(inner):
            return atoms(inner)
        case _:
            return [condition]


def stands_against(condition: Condition, measured: Measured | None) -> bool:
    """Returns whether the condition objects to the draft with which a refiner left its loop.

    Only `exit()` and what is measured of the draft are looked at; terms that say nothing of it drop out.
    """
    return _word_on_draft(condition, measured) in ("no", "unknown")


def _word_on_draft(condition: Condition, measured: Measured | None) -> Word:
    match condition:
        case Exit():
            return "yes"
        case Compare() | State() if not (isinstance(condition, Compare) and condition.quantity in _LIMITS):
            if measured is None:
                return "no"
            known: dict[bool | None, Word] = {True: "yes", False: "no", None: "unknown"}
            return known[_holds(condition, measured, limits=True)]
        case Not(inner):
            turned: dict[str, Word] = {"yes": "no", "no": "yes"}
            word = _word_on_draft(inner, measured)
            return turned.get(word, word)
        case AnyOf(conditions) | AllOf(conditions):
            order: tuple[Word, ...] = (
                ("yes", "unknown", "no") if isinstance(condition, AnyOf) else ("no", "unknown", "yes")
            )
            words = [_word_on_draft(each, measured) for each in conditions]
            return next((each for each in order if each in words), "")
        case _:
            return ""


def asks_critics(condition: Condition) -> bool:
    """Returns whether a condition looks at what only critics say."""
    return any(_is_of_critics(each) for each in atoms(condition))


def _is_of_critics(atom: Atom) -> bool:
    match atom:
        case Compare(quantity):
            return quantity not in (*_LIMITS, "outputs")
        case Exit() | State():
            return False
        case Approved() | Plateau() | Oscillating():
            return True


def looks_at_state(condition: Condition) -> bool:
    """Returns whether a condition looks at the run's state."""
    return any(isinstance(each, State) for each in atoms(condition))


def memory_needed(condition: Condition) -> tuple[int, int]:
    """Returns how many running best scores and how many hashes of drafts a loop must remember."""
    over = max((each.over for each in atoms(condition) if isinstance(each, Plateau)), default=0)
    window = max((each.window for each in atoms(condition) if isinstance(each, Oscillating)), default=0)
    return over + 1, window + 1


def _holds(condition: Condition, measured: Measured, *, limits: bool) -> bool | None:
    """Returns whether a condition holds; None where that hangs on a measure that no critic gave."""
    match condition:
        case AnyOf(conditions) | AllOf(conditions):
            parts = [_holds(each, measured, limits=limits) for each in conditions]
            decides = isinstance(condition, AnyOf)
            return decides if decides in parts else None if None in parts else not decides
        case Not(inner):
            held = _holds(inner, measured, limits=limits)
            return None if held is None else not held
        case Compare("criterion" | "change", sign, value) if is_counted(condition.of, measured.critics):
            number = _count(condition, measured)
            return None if number is None else _OPERATORS[sign](number, value)
        case State():
            return _holds_of_value(condition, measured.values)
        case Compare("criterion", of=name) if is_left_open(name, measured.rating, measured.critics, measured.rules):
            return None
        case _:
            return (limits or _outcome_of(condition) == "accepted") and _is_true(condition, measured)


def _holds_of_value(term: State, values: Values) -> bool | None:
    if term.of not in values:
        return None
    value = values[term.of]
    if term.operator == "is":
        return bool(value)
    if _kind_of(value) is None or _kind_of(value) != _kind_of(term.value):
        return None
    if term.operator == "==":
        return value == term.value
    return _OPERATORS[term.operator](value, term.value) if _kind_of(value) == "number" else None  # type: ignore[arg-type]


def _kind_of(value: Value) -> Literal["truth", "number", "text"] | None:
    match value:
        case bool():
            return "truth"
        case int() | float():
            return "number"
        case str():
            return "text"
        case _:
            return None


def _count(term: Compare, measured: Measured) -> float | None:
    now = count_of(term.of, measured.rating.counts)
    if term.quantity == "criterion":
        return now
    before = count_of(term.of, measured.earlier.counts) if measured.earlier else None
    return share_of_change(now, before, measured.rules)


def _is_true(atom: Atom, measured: Measured) -> bool:
    match atom:
        case Compare("score" | "criterion", sign, value):
            name = atom.of or "score"
            scale = _read_on(value, atom.top, scale_for(name, measured.critics))
            share = measured.rating.named(name)
            return _OPERATORS[sign](share if scale is None else on_scale(share, scale), value)
        case Compare(quantity, sign, value):
            there = {"score": measured.rating.score, "errors": measured.rating.errors}
            number = there[quantity] if quantity in there else float(getattr(measured, quantity))
            return _OPERATORS[sign](number, value)
        case Approved():
            return measured.rating.approved is True
        case Plateau(gain, over):
            name = "score" if atom.of is UNSET else atom.of
            peaks = measured.peaks if atom.of is UNSET else measured.trails.get(name, Trail()).peaks
            if len(peaks) <= over:
                return False
            rise = peaks[-1] - peaks[-1 - over]
            if not have_scales(measured.critics) and atom.of is UNSET:
                return (round(rise, 9) if measured.rules >= 8 else rise) < gain
            return round(rise, 9) < share_of_rise(gain, atom.top, Plateau().gain, name, measured.critics)
        case Oscillating(window, of) if of is not UNSET:
            latest = measured.trails.get(of, Trail()).latest[-window - 1 :]
            return len(latest) > 2 and latest[-2] != latest[-1] and latest[-1] in latest[:-2]
        case Oscillating(window):
            return measured.sha256 in measured.seen[-window:]
        case Exit() | State():
            return False


def _outcome_of(atom: Atom) -> Outcome:
    match atom:
        case Compare(quantity):
            return _LIMITS.get(quantity, "accepted")
        case Approved() | Exit() | State():
            return "accepted"
        case Plateau():
            return "plateaued"
        case Oscillating():
            return "oscillating"
