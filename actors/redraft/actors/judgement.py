"""What critics said of a draft, joined; and whether a condition holds for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, median
from typing import Literal, assert_never

import msgspec
from msgspec.structs import replace

from redraft.events.conditions import LIMITS, AllOf, AnyOf, Approved, Compare, Condition, Not, Oscillating, Plateau
from redraft.events.content import Critique
from redraft.events.domain_events import Outcome
from redraft.events.plan import Combine


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """A draft's joined score (0..1), count of errors, verdict, and the versions in the stream of its critiques.

    `gate` says how it fared with gates: `passed` where only gates have spoken, `failed` where one did not pass it.
    """

    score: float
    errors: int
    approved: bool | None
    critiques: tuple[int, ...]
    gate: Literal["", "passed", "failed"] = ""

    @property
    def rank(self) -> tuple[bool, float]:
        """What drafts are compared by: one that passed its gates is better than one that did not."""
        return self.gate != "failed", self.score


class Facts(msgspec.Struct, frozen=True, gc=False):
    """All that a condition may ask about. `peaks` are the running best scores, `seen` the hashes judged before."""

    judgement: Judgement
    sha256: str
    outputs: int
    elapsed: float
    tokens: int
    cost: float
    peaks: tuple[float, ...]
    seen: tuple[str, ...]


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """How and why a loop ends."""

    outcome: Outcome
    reason: str


def judgement_of(version: int, critique: Critique, *, gate: bool = False) -> Judgement:
    """One critique, recorded at this version of the stream, as a judgement. A gate that does not pass says no."""
    said, errors = critique.approved, len(critique.errors)
    if not gate:
        return Judgement(critique.score, errors, said, (version,))
    if said or (said is None and critique.score >= 1 and not errors):
        return Judgement(critique.score, errors, said, (version,), "passed")
    return Judgement(critique.score, errors, False, (version,), "failed")


def join(judgements: Sequence[Judgement], combine: Combine = "min", weights: Sequence[float] = ()) -> Judgement:
    """Several judgements of one draft as one: errors add up, and it is approved only when every critic approved.

    Where a gate failed, only gates that failed count, and the lowest score of them; gates that passed count only where
    nobody else spoke.
    """
    if len(judgements) == 1:
        return judgements[0]
    gates = {each.gate for each in judgements}
    if "failed" in gates:
        failed = [each for each in judgements if each.gate == "failed"]
        return replace(_joined(failed, "min", ()), approved=False, critiques=_versions(judgements), gate="failed")
    if gates == {"", "passed"}:
        spoken = [number for number, each in enumerate(judgements) if not each.gate]
        theirs = [weights[number] for number in spoken] if weights else ()
        joined = _joined([judgements[number] for number in spoken], combine, theirs)
        return replace(joined, critiques=_versions(judgements))
    return _joined(judgements, combine, weights)


def _joined(judgements: Sequence[Judgement], combine: Combine, weights: Sequence[float]) -> Judgement:
    if len(judgements) == 1:
        return judgements[0]
    verdicts = [each.approved for each in judgements]
    approved = False if False in verdicts else (True if all(verdicts) else None)
    return Judgement(
        _joined_score([each.score for each in judgements], combine, weights, vetoed=approved is False),
        sum(each.errors for each in judgements),
        approved,
        _versions(judgements),
        judgements[0].gate,
    )


def _versions(judgements: Sequence[Judgement]) -> tuple[int, ...]:
    return tuple(version for each in judgements for version in each.critiques)


def _joined_score(scores: Sequence[float], combine: Combine, weights: Sequence[float], *, vetoed: bool) -> float:
    match combine:
        case "min":
            return min(scores)
        case "median":
            return median(scores)
        case "mean":
            return fmean(scores)
        case "weights":
            return fmean(scores, weights) if sum(weights) > 0 else min(scores)
        case "veto":
            return 0.0 if vetoed else fmean(scores)
        case _:
            assert_never(combine)


def merge(critiques: Sequence[Critique], joined_score: float | None) -> Critique | None:
    """Several critics' words as the one critique that a refiner meets."""
    if len(critiques) < 2:
        return critiques[0] if critiques else None
    verdicts = [each.approved for each in critiques]
    return Critique(
        score=min(each.score for each in critiques) if joined_score is None else joined_score,
        strengths=tuple(line for each in critiques for line in each.strengths),
        weaknesses=tuple(line for each in critiques for line in each.weaknesses),
        suggestions=tuple(line for each in critiques for line in each.suggestions),
        errors=tuple(line for each in critiques for line in each.errors),
        approved=False if False in verdicts else (True if all(verdicts) else None),
        critic=", ".join(each.critic for each in critiques),
    )


def verdict(condition: Condition, facts: Facts, *, own_word: bool) -> Verdict | None:
    """How and why a loop ends here, or None when it goes on.

    A critic's `approved=False` forbids acceptance; with `own_word`, its `approved=True` ends the loop whatever the
    condition says. A loop that ends only because of a limit in its condition is not accepted.
    """
    judged = facts.judgement
    if own_word and judged.approved is True:
        return Verdict("accepted", f"the critic approved the draft (score {judged.score:.3g})")
    if not holds(condition, facts, limits=True):
        return None
    if judged.approved is not False and holds(condition, facts, limits=False):
        return Verdict("accepted", f"the condition holds: {describe(condition, facts)}")
    for kind in ("over_budget", "timed_out", "oscillating", "plateaued"):
        reached = [each for each in _atoms(condition) if _outcome(each) == kind and _atom_holds(each, facts)]
        if reached:
            return Verdict(kind, describe(reached[0], facts))
    return None


def holds(condition: Condition, facts: Facts, *, limits: bool) -> bool:
    """Whether the condition is met; with `limits=False` as if no limit in it were ever reached."""
    match condition:
        case AnyOf(conditions):
            return any(holds(each, facts, limits=limits) for each in conditions)
        case AllOf(conditions):
            return all(holds(each, facts, limits=limits) for each in conditions)
        case Not(inner):
            return not holds(inner, facts, limits=limits)
        case Compare() | Approved() | Plateau() | Oscillating():
            return (limits or _outcome(condition) == "accepted") and _atom_holds(condition, facts)
        case _:
            assert_never(condition)


def _atom_holds(atom: Compare | Approved | Plateau | Oscillating, facts: Facts) -> bool:
    match atom:
        case Compare():
            return _compares(atom, _measured(atom, facts))
        case Approved():
            return facts.judgement.approved is True
        case Plateau(gain, over):
            return len(facts.peaks) > over and facts.peaks[-1] - facts.peaks[-1 - over] < gain
        case Oscillating(window):
            return facts.sha256 in facts.seen[-window:]
        case _:
            assert_never(atom)


def _compares(atom: Compare, measured: float) -> bool:
    match atom.operator:
        case ">=":
            return measured >= atom.value
        case ">":
            return measured > atom.value
        case "<=":
            return measured <= atom.value
        case "<":
            return measured < atom.value
        case "==":
            return measured == atom.value
        case _:
            assert_never(atom.operator)


def _measured(atom: Compare, facts: Facts) -> float:
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
        case _:
            assert_never(atom.quantity)


def _outcome(atom: Compare | Approved | Plateau | Oscillating) -> Outcome:
    match atom:
        case Compare(quantity):
            if quantity not in LIMITS:
                return "accepted"
            return "timed_out" if quantity == "elapsed" else "over_budget"
        case Approved():
            return "accepted"
        case Plateau():
            return "plateaued"
        case Oscillating():
            return "oscillating"
        case _:
            assert_never(atom)


def _atoms(condition: Condition) -> list[Compare | Approved | Plateau | Oscillating]:
    match condition:
        case AnyOf(conditions) | AllOf(conditions):
            return [atom for each in conditions for atom in _atoms(each)]
        case Not(inner):
            return _atoms(inner)
        case Compare() | Approved() | Plateau() | Oscillating():
            return [condition]
        case _:
            assert_never(condition)


def describe(condition: Condition, facts: Facts) -> str:
    """The measured facts that a condition spoke of, for people: `score 0.93 >= 0.9, errors 0 == 0`."""
    return ", ".join(_described(atom, facts) for atom in _atoms(condition) if _atom_holds(atom, facts))


def _described(atom: Compare | Approved | Plateau | Oscillating, facts: Facts) -> str:
    match atom:
        case Compare(quantity, operator, value):
            return f"{quantity} {_measured(atom, facts):.4g} {operator} {value:g}"
        case Approved():
            return "approved"
        case Plateau(gain, over):
            return f"the best score rose by less than {gain:g} over {over} judged drafts"
        case Oscillating():
            return "the draft is one that was judged before"
        case _:
            assert_never(atom)


@lru_cache(maxsize=256)
def reach(condition: Condition) -> tuple[int, int]:
    """How many peaks and how many hashes the condition looks back on: what a loop needs to remember."""
    atoms = _atoms(condition)
    over = max((each.over for each in atoms if isinstance(each, Plateau)), default=0)
    window = max((each.window for each in atoms if isinstance(each, Oscillating)), default=0)
    return over + 1, window
