"""The facts about a draft that the condition of a loop looks at, and whether it holds. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeAlias, assert_never

import msgspec
from msgspec import UNSET

from redraft.actors.conditions.printing import name_of, print_number
from redraft.actors.conditions.reading import (
    SCORE,
    compare,
    declares,
    is_measure,
    print_gain,
    scale_named,
    share_of_gain,
    shown_scale,
)
from redraft.actors.conditions.text import COMPARE
from redraft.actors.conditions.values import describe_value, value_meets
from redraft.actors.deciding.judgement import Judgement
from redraft.events.messages.conditions import (
    LIMITS,
    NAMED,
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
from redraft.events.messages.content import Number, number_text
from redraft.events.messages.domain_events import Outcome
from redraft.events.messages.plan import RULES, Step
from redraft.events.messages.run_state import Values
from redraft.events.messages.scales import UNIT, score_text

_SAID_OR_UNKNOWN: Final = 6
"""The rules from which on a criterion that nobody gave is unknown, a gain is told with its scale, and the smallest
change is one.
"""

_IN_DECIMALS: Final = 8
"""The rules from which on a plateau compares decimals: a gain of 0.2 from 0.1 to 0.3 is not below 0.2."""

Atom: TypeAlias = Compare | Approved | Plateau | Oscillating | Exit | State
"""A condition that contains no others."""


class Track(msgspec.Struct, frozen=True, gc=False):
    """The best scores of a criterion so far, and its latest, with that of the current draft."""

    peaks: tuple[float, ...] = ()
    latest: tuple[float, ...] = ()


class Facts(msgspec.Struct, frozen=True, gc=False):
    """The facts that a condition may refer to. `peaks` are the best scores so far, `seen` the hashes judged before.

    `tracks` are the best and the latest scores of criteria, by name; `critics` those on whose scales numbers are read.
    `rules` are those of the run. `before` is the judgement of the draft that was judged before this one. `values` are
    those of the run's state that the condition may see.
    """

    judgement: Judgement
    sha256: str
    outputs: int
    elapsed: float
    tokens: int
    cost: float
    peaks: tuple[float, ...]
    seen: tuple[str, ...]
    tracks: dict[str, Track] = {}
    critics: tuple[Step, ...] = ()
    rules: int = RULES
    before: Judgement | None = None
    values: Values = {}


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The outcome and the reason with which a loop ends."""

    outcome: Outcome
    reason: str


def holds_for_draft(condition: Condition, judged: Judgement, critics: tuple[Step, ...]) -> bool:
    """Returns whether a condition holds that only looks at one draft."""
    return holds(condition, Facts(judged, "", 0, 0.0, 0, 0.0, (), (), critics=critics), limits=True)


def verdict(condition: Condition, facts: Facts, *, own_word: bool) -> Verdict | None:
    """Returns the outcome and reason with which a loop ends here; None when it goes on.

    A critic's `approved=False` forbids acceptance; with `own_word`, its `approved=True` ends the loop whatever the
    condition. A loop that ends only because of a limit in its condition is not accepted.
    """
    judged = facts.judgement
    if own_word and judged.approved is True:
        plain = judged.scale is None and facts.rules < 4
        shown = f"{judged.score:.3g}" if plain else score_text(judged.score, judged.scale)
        score = f" (score {shown})" if judged.scored else ""
        return Verdict("accepted", f"the critic approved the draft{score}")
    if not holds(condition, facts, limits=True):
        return None
    if judged.approved is not False and holds(condition, facts, limits=False):
        return Verdict("accepted", f"the condition holds: {describe(condition, facts)}")
    for kind in ("over_budget", "timed_out", "oscillating", "plateaued"):
        reached = [each for each in _atoms(condition) if _outcome_of(each) == kind and _atom_holds(each, facts)]
        if reached:
            return Verdict(kind, describe(reached[0], facts))
    return None


def holds(condition: Condition, facts: Facts, *, limits: bool, negated: bool = False) -> bool:
    """Returns whether the condition is met; with `limits=False` as if no limit in it were ever reached.

    With `negated` it is whether its negation is: of a measure that is not known, neither holds.
    """
    match condition:
        case Compare() | Approved() | Plateau() | Oscillating() | Exit() | State():
            if not limits and _outcome_of(condition) != "accepted":
                return negated
            return _is_known(condition, facts) and _atom_holds(condition, facts) != negated
        case AnyOf(conditions) | AllOf(conditions):
            joined = any if isinstance(condition, AnyOf) != negated else all
            return joined(holds(each, facts, limits=limits, negated=negated) for each in conditions)
        case Not(inner):
            return holds(inner, facts, limits=limits, negated=not negated)
        case _:
            assert_never(condition)


def _is_known(atom: Atom, facts: Facts) -> bool:
    """Returns whether there is anything to compare: a critic that was not asked has said and counted nothing."""
    if type(atom) is State:
        return value_meets(atom, facts.values) is not None
    if type(atom) is not Compare or atom.quantity not in NAMED:
        return True
    if not is_measure(atom.of, facts.critics):
        return is_known(atom.of, facts.judgement, facts.critics, facts.rules)
    return _counted(atom, facts) is not None


def is_known(name: str, judged: Judgement, critics: tuple[Step, ...], rules: int) -> bool:
    """Returns whether this criterion of a draft is known: it is not where its critic was not asked, or not heard.

    Before rules 6, one that nobody gave was the lowest, unless some of these critics may not have been asked.
    """
    if rules >= _SAID_OR_UNKNOWN:
        return judged.knows(name)
    return judged.gives(name) or all(step.when is None for step in critics)


def says_of_draft_left(condition: Condition, facts: Facts | None, *, negated: bool = False) -> bool | None:
    """Returns what the condition says of the draft with which a refiner left: True for it, False against it.

    None if it asks nothing of the draft. Limits and `approved` say nothing: what critics say counts by itself. Without
    facts the draft was not judged, and measures nothing. With `negated` it is what the negation says.
    """
    match condition:
        case AnyOf(conditions) | AllOf(conditions):
            said = {says_of_draft_left(each, facts, negated=negated) for each in conditions} - {None}
            return isinstance(condition, AnyOf) != negated if len(said) == 2 else next(iter(said), None)
        case Not(inner):
            return says_of_draft_left(inner, facts, negated=not negated)
        case Compare(quantity):
            if quantity in LIMITS:
                return None
            if facts is None:
                return negated
            return _is_known(condition, facts) and _atom_holds(condition, facts) != negated
        case State():
            return facts is not None and _is_known(condition, facts) and _atom_holds(condition, facts) != negated
        case Exit():
            return not negated
        case Approved() | Plateau() | Oscillating():
            return None
        case _:
            assert_never(condition)


def _atom_holds(atom: Atom, facts: Facts) -> bool:
    match atom:
        case Compare():
            if atom.quantity == "score" or (atom.quantity == "criterion" and not is_measure(atom.of, facts.critics)):
                return _is_known(atom, facts) and compare(atom, _measure(atom, facts), facts.critics)
            return _is_known(atom, facts) and COMPARE[atom.operator](_measure(atom, facts), atom.value)
        case Approved():
            return facts.judgement.approved is True
        case Plateau(gain, over) if atom.of is UNSET and not declares(facts.critics):
            rise = facts.peaks[-1] - facts.peaks[-1 - over] if len(facts.peaks) > over else gain
            return (rise if facts.rules < _IN_DECIMALS else round(rise, 9)) < gain
        case Plateau():
            return _rises_little(atom, facts)
        case Oscillating(window) if atom.of is UNSET:
            return facts.sha256 in facts.seen[-window:]
        case Oscillating(window, of):
            latest = facts.tracks.get(str(of), Track()).latest[-window - 1 :]
            return _comes_back(latest)
        case Exit():
            return False  # looked at only when a refiner has left
        case State():
            return value_meets(atom, facts.values) is True
        case _:
            assert_never(atom)


def _rises_little(atom: Plateau, facts: Facts) -> bool:
    name = SCORE if atom.of is UNSET else atom.of
    peaks = facts.peaks if atom.of is UNSET else facts.tracks.get(name, Track()).peaks
    if len(peaks) <= atom.over:
        return False
    gain = share_of_gain(atom.gain, atom.top, Plateau().gain, name, facts.critics)
    return round(peaks[-1] - peaks[-1 - atom.over], 9) < gain


def _comes_back(latest: Sequence[float]) -> bool:
    """Returns whether the last score was there before, and another in between."""
    *before, last = latest or (0.0,)
    return last in before and before[-1] != last


def _measure(atom: Compare, facts: Facts) -> float:
    match atom.quantity:
        case "score":
            return facts.judgement.score
        case "errors":
            return facts.judgement.errors
        case "outputs":
            return facts.outputs
        case "elapsed":
            return facts.elapsed
        case "tokens":
            return facts.tokens
        case "cost":
            return facts.cost
        case "criterion" if not is_measure(atom.of, facts.critics):
            return facts.judgement.mark(atom.of)
        case "criterion" | "change":
            return _counted(atom, facts) or 0
        case _:
            assert_never(atom.quantity)


def _counted(atom: Compare, facts: Facts) -> Number | None:
    """Returns a measure, or by which share it changed since the draft before; None where it is not known."""
    now = facts.judgement.measured(atom.of)
    if atom.quantity != "change" or now is None:
        return now
    was = facts.before.measured(atom.of) if facts.before is not None else None
    if was is None or now == was:
        return None if was is None else 0
    if not was:
        return math.inf
    share = abs(now - was) / abs(was)
    return round(share, 9) if facts.rules < _SAID_OR_UNKNOWN else float(f"{share:.9g}")


def _outcome_of(atom: Atom) -> Outcome:
    match atom:
        case Compare(quantity):
            if quantity not in LIMITS:
                return "accepted"
            return "timed_out" if quantity == "elapsed" else "over_budget"
        case Approved() | Exit() | State():
            return "accepted"
        case Plateau():
            return "plateaued"
        case Oscillating():
            return "oscillating"
        case _:
            assert_never(atom)


def _atoms(condition: Condition) -> list[Atom]:
    match condition:
        case AnyOf(conditions) | AllOf(conditions):
            return [atom for each in conditions for atom in _atoms(each)]
        case Not(inner):
            return _atoms(inner)
        case Compare() | Approved() | Plateau() | Oscillating() | Exit() | State():
            return [condition]
        case _:
            assert_never(condition)


def describe(condition: Condition, facts: Facts) -> str:
    """Returns the measured facts of a condition for people: `score 0.93 >= 0.9, errors 0 == 0`."""
    if facts.rules < 4:
        return ", ".join(_describe_atom(atom, facts) for atom in _atoms(condition) if _atom_holds(atom, facts))
    return ", ".join(_describe_held(condition, facts, negated=False))


def describe_unknown(condition: Condition, facts: Facts) -> str:
    """Returns what a condition asks for and nobody has said, for people: `words is not known`."""
    atoms = [each for each in _atoms(condition) if isinstance(each, Compare | State)]
    unknown = [name_of(each) for each in atoms if not _is_known(each, facts)]
    return ", ".join(f"{name} is not known" for name in dict.fromkeys(unknown))


def _describe_held(condition: Condition, facts: Facts, *, negated: bool) -> Iterator[str]:
    """Yields the facts that speak for the condition or, with `negated`, for its negation: `not score 0.40 >= 0.5`."""
    match condition:
        case AnyOf(conditions) | AllOf(conditions):
            for each in conditions:
                yield from _describe_held(each, facts, negated=negated)
        case Not(inner):
            yield from _describe_held(inner, facts, negated=not negated)
        case Compare() | Approved() | Plateau() | Oscillating() | Exit() | State():
            if _is_known(condition, facts) and _atom_holds(condition, facts) != negated:
                no = "not " if isinstance(condition, Compare | Approved | State) else "it is not so that "
                yield f"{no if negated else ''}{_describe_atom(condition, facts)}"
        case _:
            assert_never(condition)


def _describe_atom(atom: Atom, facts: Facts) -> str:
    match atom:
        case Compare(quantity, operator, value) if quantity in NAMED and is_measure(atom.of, facts.critics):
            return f"{name_of(atom)} {number_text(_measure(atom, facts))} {operator} {print_number(value)}"
        case Compare(_, operator, value):
            return f"{name_of(atom)} {_measure_text(atom, facts)} {operator} {value:g}"
        case Approved():
            return "approved"
        case Plateau(gain, over):
            what = "score" if atom.of is UNSET else atom.of
            top = "" if atom.top is UNSET else f" of {atom.top:g}"
            least, drafts = f"{gain:g}{top}", "drafts"
            if facts.rules >= _SAID_OR_UNKNOWN:
                least, drafts = print_gain(atom, facts.critics), "draft" if over == 1 else "drafts"
            return f"the best {what} rose by less than {least} over {over} judged {drafts}"
        case Oscillating(_, of) if of is not UNSET:
            return f"{of} has a score again that it had before"
        case Oscillating():
            return "the draft is one that was judged before"
        case Exit():
            return "the refiner left"  # never measured: see `_atom_holds`
        case State():
            return describe_value(atom, facts.values)
        case _:
            assert_never(atom)


def _measure_text(atom: Compare, facts: Facts) -> str:
    """Returns what was measured, on the critic's scale, and on that of the condition if it differs."""
    measured = _measure(atom, facts)
    if atom.quantity not in ("score", "criterion"):
        return f"{measured:.4g}"
    scale = shown_scale(atom, facts.critics)
    if facts.rules < 4:
        return f"{measured:.4g}" if scale is None or scale == UNIT else score_text(measured, scale)
    declared = scale_named(name_of(atom), facts.critics)
    if declared is None or declared == scale:
        return score_text(measured, scale)
    share = score_text(measured, scale)
    return f"{score_text(measured, declared)} ({f'a share of {share}' if scale == UNIT else share})"


@lru_cache(maxsize=256)
def reach(condition: Condition) -> tuple[int, int]:
    """Returns how many peaks and how many hashes the condition looks back on, which its loop has to remember."""
    atoms = _atoms(condition)
    over = max((each.over for each in atoms if isinstance(each, Plateau)), default=0)
    window = max((each.window for each in atoms if isinstance(each, Oscillating)), default=0)
    return over + 1, window


@lru_cache(maxsize=256)
def tracked(condition: Condition) -> tuple[str, ...]:
    """Returns the criteria whose scores the condition looks back on."""
    named = (each.of for each in _atoms(condition) if isinstance(each, Plateau | Oscillating))
    return tuple(dict.fromkeys(str(of) for of in named if of is not UNSET))
