"""Joins the critiques of a draft into a judgement, and evaluates conditions on it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, median
from typing import Literal, TypeAlias, assert_never

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from redraft.actors.conditions.reading import SCORE, compare, declares, share_of_gain, shown_scale
from redraft.actors.conditions.text import COMPARE, name_of
from redraft.events.messages.conditions import (
    CONFIDENCE,
    LIMITS,
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
)
from redraft.events.messages.content import Critique, Mark
from redraft.events.messages.domain_events import Outcome
from redraft.events.messages.plan import Combine, Step
from redraft.events.messages.scales import UNIT, Scale, score_text

Atom: TypeAlias = Compare | Approved | Plateau | Oscillating | Exit
"""A condition that contains no others."""


class Track(msgspec.Struct, frozen=True, gc=False):
    """The best scores of a criterion so far, and its latest, with that of the current draft."""

    peaks: tuple[float, ...] = ()
    latest: tuple[float, ...] = ()


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """A draft's joined score (0..1), count of errors, verdict, and the versions in the stream of its critiques.

    `gate` is `passed` if only gates have answered, and `failed` if a gate failed the draft. It is not `scored`, with 0
    as its score, if every critic gave a verdict only. `scale` is the one that all its critics declare, if they do.
    `marks` are the joined scores of criteria, and `confidence`, by name; `own` those of each critic: `judge.accuracy`.
    """

    score: float
    errors: int
    approved: bool | None
    critiques: tuple[int, ...]
    gate: Literal["", "passed", "failed"] = ""
    scored: bool = True
    scale: Scale | None = None
    marks: dict[str, float] = {}
    own: dict[str, float] = {}

    def mark(self, name: str) -> float:
        """The score of a criterion by its name in conditions; 0 if no critic that answered gave one."""
        if name == SCORE:
            return self.score
        if name == LOWEST:
            return min((value for of, value in self.marks.items() if of != CONFIDENCE), default=0.0)
        return self.own.get(name, 0.0) if "." in name else self.marks.get(name, 0.0)

    @property
    def known_score(self) -> float | None:
        """The score; None if every critic gave a verdict only."""
        return self.score if self.scored else None

    @property
    def rank(self) -> tuple[bool, float]:
        """The key that drafts are compared by: one that failed no gate is better than one that did."""
        return self.gate != "failed", self.score


class Facts(msgspec.Struct, frozen=True, gc=False):
    """The facts that a condition may refer to. `peaks` are the best scores so far, `seen` the hashes judged before.

    `tracks` are the best and the latest scores of criteria, by name; `critics` those on whose scales numbers are read.
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


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The outcome and the reason with which a loop ends."""

    outcome: Outcome
    reason: str


def judgement_of(
    version: int, critique: Critique, *, gate: bool = False, scored: bool = True, step: Step | None = None
) -> Judgement:
    """Returns one critique, at this version of the stream, as a judgement. A gate that is not passed disapproves.

    A critique without a score is `scored` as 0 by rules 2. `step` is the critic's, as the plan has it.
    """
    said, errors, scored = critique.approved, len(critique.errors), scored or critique.scored
    judged = Judgement(critique.score, errors, said, (version,), "", scored)
    if step is not None and (step.scale is not None or critique.criteria or critique.confidence is not None):
        marks = _marks_of(critique)
        own = {f"{step.name}.{name}": value for name, value in ((SCORE, critique.score), *marks.items())}
        judged = replace(judged, scale=step.scale, marks=marks, own=own)
    if not gate:
        return judged
    if said or (said is None and _passes(judged, step)):
        return replace(judged, gate="passed")
    return replace(judged, approved=False, gate="failed")


def _marks_of(critique: Critique) -> dict[str, float]:
    marks = {each.name: each.score for each in critique.criteria}
    return marks if critique.confidence is None else {**marks, CONFIDENCE: critique.confidence}


def _passes(judged: Judgement, step: Step | None) -> bool:
    if step is None or step.passes is None:
        return judged.score >= 1 and not judged.errors
    return holds_for_draft(step.passes, judged, (step,))


def holds_for_draft(condition: Condition, judged: Judgement, critics: tuple[Step, ...]) -> bool:
    """Returns whether a condition holds that only looks at one draft."""
    return holds(condition, Facts(judged, "", 0, 0.0, 0, 0.0, (), (), critics=critics), limits=True)


def join(judgements: Sequence[Judgement], combine: Combine = "min", weights: Sequence[float] = ()) -> Judgement:
    """Returns several judgements of one draft as one: errors add up, and approval needs every critic's.

    If a gate failed, only failed gates count, with their lowest score; passed gates count only if no other critic
    answered.
    """
    if len(judgements) == 1:
        return judgements[0]
    gates = {each.gate for each in judgements}
    if "failed" in gates:
        failed = [each for each in judgements if each.gate == "failed"]
        return replace(_join_all(failed, "min", ()), approved=False, critiques=_versions(judgements), gate="failed")
    if gates == {"", "passed"}:
        spoken = [number for number, each in enumerate(judgements) if not each.gate]
        theirs = [weights[number] for number in spoken] if weights else ()
        joined = _join_all([judgements[number] for number in spoken], combine, theirs)
        return replace(joined, critiques=_versions(judgements))
    return _join_all(judgements, combine, weights)


def _join_all(judgements: Sequence[Judgement], combine: Combine, weights: Sequence[float]) -> Judgement:
    if len(judgements) == 1:
        return judgements[0]
    verdicts = [each.approved for each in judgements]
    approved = False if False in verdicts else (True if all(verdicts) else None)
    scored = [number for number, each in enumerate(judgements) if each.scored]
    counted = scored or list(range(len(judgements)))
    theirs = [weights[number] for number in counted] if weights else ()
    vetoed = approved is False
    joined = Judgement(
        _join_scores([judgements[number].score for number in counted], combine, theirs, vetoed=vetoed),
        sum(each.errors for each in judgements),
        approved,
        _versions(judgements),
        judgements[0].gate,
        bool(scored),
    )
    if not any(each.own for each in judgements):
        return joined
    scales = {judgements[number].scale for number in counted}
    return replace(
        joined,
        scale=scales.pop() if len(scales) == 1 else None,
        marks=_join_marks(judgements, combine, weights, vetoed=vetoed),
        own={name: value for each in judgements for name, value in each.own.items()},
    )


def _join_marks(
    judgements: Sequence[Judgement], combine: Combine, weights: Sequence[float], *, vetoed: bool
) -> dict[str, float]:
    """Returns the scores criterion by criterion, each of the critics that gave one; the lowest confidence."""
    joined: dict[str, float] = {}
    for name in dict.fromkeys(name for each in judgements for name in each.marks):
        those = [number for number, each in enumerate(judgements) if name in each.marks]
        values = [judgements[number].marks[name] for number in those]
        theirs = [weights[number] for number in those] if weights else ()
        joined[name] = min(values) if name == CONFIDENCE else _join_scores(values, combine, theirs, vetoed=vetoed)
    return joined


def _versions(judgements: Sequence[Judgement]) -> tuple[int, ...]:
    return tuple(version for each in judgements for version in each.critiques)


def _join_scores(scores: Sequence[float], combine: Combine, weights: Sequence[float], *, vetoed: bool) -> float:
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
    """Returns several critics' critiques as the one critique that a refiner gets."""
    if len(critiques) < 2:
        return critiques[0] if critiques else None
    verdicts = [each.approved for each in critiques]
    scores = [each.score for each in critiques if each.scored]
    return Critique(
        score=min(scores, default=0.0) if joined_score is None else joined_score,
        strengths=tuple(line for each in critiques for line in each.strengths),
        weaknesses=tuple(line for each in critiques for line in each.weaknesses),
        suggestions=tuple(line for each in critiques for line in each.suggestions),
        errors=tuple(line for each in critiques for line in each.errors),
        approved=False if False in verdicts else (True if all(verdicts) else None),
        critic=", ".join(each.critic for each in critiques),
        scored=bool(scores) or joined_score is not None,
        details={f"{each.critic}.{name}": value for each in critiques for name, value in each.details.items()},
        criteria=_lowest_marks(critiques),
        confidence=min((each.confidence for each in critiques if each.confidence is not None), default=None),
        scale=critiques[0].scale if len({each.scale for each in critiques}) == 1 else None,
        issues=tuple({issue.id: issue for each in critiques for issue in each.issues}.values()),
    )


def _lowest_marks(critiques: Sequence[Critique]) -> tuple[Mark, ...]:
    """Returns, for each criterion, the lowest score that a critic gave: what is to be mended comes first."""
    lowest: dict[str, Mark] = {}
    for each in critiques:
        for mark in each.criteria:
            if mark.name not in lowest or mark.score < lowest[mark.name].score:
                lowest[mark.name] = mark
    return tuple(lowest.values())


def verdict(condition: Condition, facts: Facts, *, own_word: bool) -> Verdict | None:
    """Returns the outcome and reason with which a loop ends here; None when it goes on.

    A critic's `approved=False` forbids acceptance; with `own_word`, its `approved=True` ends the loop whatever the
    condition. A loop that ends only because of a limit in its condition is not accepted.
    """
    judged = facts.judgement
    if own_word and judged.approved is True:
        shown = f"{judged.score:.3g}" if judged.scale is None else score_text(judged.score, judged.scale)
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


def holds(condition: Condition, facts: Facts, *, limits: bool) -> bool:
    """Returns whether the condition is met; with `limits=False` as if no limit in it were ever reached."""
    match condition:
        case AnyOf(conditions):
            return any(holds(each, facts, limits=limits) for each in conditions)
        case AllOf(conditions):
            return all(holds(each, facts, limits=limits) for each in conditions)
        case Not(inner):
            return not holds(inner, facts, limits=limits)
        case Compare() | Approved() | Plateau() | Oscillating() | Exit():
            return (limits or _outcome_of(condition) == "accepted") and _atom_holds(condition, facts)
        case _:
            assert_never(condition)


def says_of_draft_left(condition: Condition, facts: Facts | None) -> bool | None:
    """Returns what the condition says of the draft with which a refiner left: True for it, False against it.

    None if it asks nothing of the draft. Limits and `approved` say nothing: what critics say counts by itself. Without
    facts the draft was not judged, and measures nothing.
    """
    match condition:
        case AnyOf(conditions) | AllOf(conditions):
            said = {says_of_draft_left(each, facts) for each in conditions} - {None}
            return isinstance(condition, AnyOf) if len(said) == 2 else next(iter(said), None)
        case Not(inner):
            inside = says_of_draft_left(inner, facts)
            return None if inside is None else not inside
        case Compare(quantity):
            return None if quantity in LIMITS else facts is not None and _atom_holds(condition, facts)
        case Exit():
            return True
        case Approved() | Plateau() | Oscillating():
            return None
        case _:
            assert_never(condition)


def _atom_holds(atom: Atom, facts: Facts) -> bool:
    match atom:
        case Compare():
            if atom.quantity in ("score", "criterion"):
                return compare(atom, _measure(atom, facts), facts.critics)
            return COMPARE[atom.operator](_measure(atom, facts), atom.value)
        case Approved():
            return facts.judgement.approved is True
        case Plateau(gain, over) if atom.of is UNSET and not declares(facts.critics):
            return len(facts.peaks) > over and facts.peaks[-1] - facts.peaks[-1 - over] < gain
        case Plateau():
            return _rises_little(atom, facts)
        case Oscillating(window) if atom.of is UNSET:
            return facts.sha256 in facts.seen[-window:]
        case Oscillating(window, of):
            latest = facts.tracks.get(str(of), Track()).latest[-window - 1 :]
            return _comes_back(latest)
        case Exit():
            return False  # looked at only when a refiner has left
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
        case "criterion":
            return facts.judgement.mark(atom.of)
        case _:
            assert_never(atom.quantity)


def _outcome_of(atom: Atom) -> Outcome:
    match atom:
        case Compare(quantity):
            if quantity not in LIMITS:
                return "accepted"
            return "timed_out" if quantity == "elapsed" else "over_budget"
        case Approved() | Exit():
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
        case Compare() | Approved() | Plateau() | Oscillating() | Exit():
            return [condition]
        case _:
            assert_never(condition)


def describe(condition: Condition, facts: Facts) -> str:
    """Returns the measured facts of a condition for people: `score 0.93 >= 0.9, errors 0 == 0`."""
    return ", ".join(_describe_atom(atom, facts) for atom in _atoms(condition) if _atom_holds(atom, facts))


def _describe_atom(atom: Atom, facts: Facts) -> str:
    match atom:
        case Compare(quantity, operator, value):
            scale = shown_scale(atom, facts.critics) if quantity in ("score", "criterion") else None
            if scale is not None and scale != UNIT:
                shown = score_text(_measure(atom, facts), scale)
                return f"{name_of(atom)} {shown} {operator} {value:g}"
            return f"{name_of(atom)} {_measure(atom, facts):.4g} {operator} {value:g}"
        case Approved():
            return "approved"
        case Plateau(gain, over):
            what = "score" if atom.of is UNSET else atom.of
            top = "" if atom.top is UNSET else f" of {atom.top:g}"
            return f"the best {what} rose by less than {gain:g}{top} over {over} judged drafts"
        case Oscillating(_, of) if of is not UNSET:
            return f"{of} has a score again that it had before"
        case Oscillating():
            return "the draft is one that was judged before"
        case Exit():
            return "the refiner left"
        case _:
            assert_never(atom)


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
