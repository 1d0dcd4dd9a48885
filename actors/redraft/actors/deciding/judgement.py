"""Joins the critiques of a draft into a judgement, and into the one critique that a refiner gets. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from types import MappingProxyType
from typing import Literal, assert_never

import msgspec
from msgspec.structs import replace

from redraft.actors.conditions.reading import SCORE
from redraft.events.messages.conditions import CONFIDENCE, LOWEST
from redraft.events.messages.content import Critique, Mark, Number
from redraft.events.messages.plan import Combine, Step
from redraft.events.messages.scales import UNIT, Scale, without_noise


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """A draft's joined score (0..1), count of errors, verdict, and the versions in the stream of its critiques.

    `gate` is `passed` if only gates have answered, and `failed` if a gate failed the draft. It is not `scored`, with 0
    as its score, if every critic gave a verdict only. `scale` is the one that all its critics declare, if they do.
    `marks` are the joined scores of criteria, and `confidence`, by name; `own` those of each critic: `judge.accuracy`.
    `measures` are what each critic counted: `judge.words`. `unheard` are the criteria that critics here declare and
    none has given. That of a `condition` takes no part in approval. One that is `failed` is no judgement of its
    draft: a step failed that was to look at it.
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
    measures: dict[str, Number] = {}
    unheard: tuple[str, ...] = ()
    condition: bool = False
    failed: bool = False

    def mark(self, name: str) -> float:
        """The score of a criterion by its name in conditions; 0 if no critic that answered gave one."""
        if name == SCORE:
            return self.score
        if name == LOWEST:
            return min((value for of, value in self.marks.items() if of != CONFIDENCE), default=0.0)
        return self.own.get(name, 0.0) if "." in name else self.marks.get(name, self._of_gates(name) or 0.0)

    def gives(self, name: str) -> bool:
        """Returns whether a critic that answered gave this, by its name in conditions."""
        if name == LOWEST:
            return bool(self.marks.keys() - {CONFIDENCE})
        return name == SCORE or name in (self.own if "." in name else self.marks)

    def knows(self, name: str) -> bool:
        """Returns whether this is known of the draft: the lowest criterion only if each was given.

        A critic that was asked and gave no confidence has 0 as its confidence.
        """
        critic, dot, own = name.rpartition(".")
        if own == CONFIDENCE:
            return not dot or f"{critic}.{SCORE}" in self.own
        if name == LOWEST and self.unheard:
            return False
        return self.gives(name) or self._of_gates(name) is not None

    def _of_gates(self, name: str) -> float | None:
        """Returns the lowest score that passed gates gave a criterion; None if none did, or another critic did."""
        given = (value for of, value in self.own.items() if of.rpartition(".")[2] == name)
        return None if name in self.marks else min(given, default=None)

    def measured(self, name: str) -> Number | None:
        """A measure by its name in conditions; None if its critic did not give it, or was not asked."""
        if "." in name:
            return self.measures.get(name)
        return next((value for of, value in self.measures.items() if of.rpartition(".")[2] == name), None)

    @property
    def known_score(self) -> float | None:
        """The score; None if every critic gave a verdict only."""
        return self.score if self.scored else None


def join_row(judgements: Sequence[Judgement], critics: Iterable[Step], rules: int) -> Judgement:
    """Returns the judgements of a row as one; it knows which criteria of these critics, gates aside, nobody gave."""
    judged = _with_gates(join(judgements), judgements, rules)
    unheard: dict[str, None] = {}
    for step in critics:
        if step.criteria and not step.gate:
            unheard |= {each.name: None for each in step.criteria if each.name not in judged.marks}
    return replace(judged, unheard=tuple(unheard)) if unheard else judged


def join(judgements: Sequence[Judgement], combine: Combine = "min", weights: Sequence[float] = ()) -> Judgement:
    """Returns several judgements of one draft as one: errors add up, and approval needs every critic's.

    If a gate failed, only failed gates count, with their lowest score; passed gates count only if no other critic
    answered. What critics counted is kept, whatever counts.
    """
    if len(judgements) == 1:
        return judgements[0]
    joined = _join_heard(judgements, combine, weights)
    if any(each.measures for each in judgements):
        counted = {name: value for each in judgements for name, value in each.measures.items()}
        return replace(joined, measures=counted)
    return joined


def join_panel(judgements: Sequence[Judgement], combine: Combine, weights: Sequence[float], rules: int) -> Judgement:
    """Returns the judgements of a panel as one; by rules 5 means are rounded: that of 0.7, 0.7 and 0.7 is 0.7."""
    joined = _with_gates(join(judgements, combine, weights), judgements, rules)
    if rules < 5 or combine == "min":
        return joined
    marks = {name: without_noise(share) for name, share in joined.marks.items()}
    return replace(joined, score=without_noise(joined.score), marks=marks)


def _with_gates(joined: Judgement, judgements: Sequence[Judgement], rules: int) -> Judgement:
    """Returns the joined judgement, by rules 6 with the scores of passed gates in `own`, which `join` leaves out."""
    if rules < 6 or joined.gate or not any(each.gate for each in judgements):
        return joined
    return replace(joined, own={name: value for each in judgements for name, value in each.own.items()})


def _join_heard(judgements: Sequence[Judgement], combine: Combine, weights: Sequence[float]) -> Judgement:
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
    verdicts = [each.approved for each in judgements if not each.condition] or [None]
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
        condition=all(each.condition for each in judgements),
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


def merge(
    critiques: Sequence[Critique],
    joined_score: float | None,
    names: Sequence[str] | None = None,
    joined: Mapping[str, float] = MappingProxyType({}),
) -> Critique | None:
    """Returns several critics' critiques as the one critique that a refiner gets.

    `names` are those of their steps, which stand before what several of them say; without them the critics' own do.
    `joined` are the scores by criterion that they come to; the lowest of those that are missing counts.
    """
    if len(critiques) < 2:
        return critiques[0] if critiques else None
    named = list(zip(names or [each.critic for each in critiques], critiques, strict=True))
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
        details={f"{critic}.{name}": value for critic, each in named for name, value in each.details.items()},
        criteria=tuple(_as_joined(each, joined, critiques) for each in _lowest_marks(critiques)),
        confidence=min((each.confidence for each in critiques if each.confidence is not None), default=None),
        scale=critiques[0].scale if len({each.scale for each in critiques}) == 1 else None,
        measures=join_measures((critic, each.measures) for critic, each in named),
        issues=tuple({issue.id: issue for each in critiques for issue in each.issues}.values()),
    )


def join_measures(counted: Iterable[tuple[str, Mapping[str, Number]]]) -> dict[str, Number]:
    """Returns what several critics counted, by name; what two of them counted as `judge.words` of each."""
    given = [(critic, name, value) for critic, measures in counted for name, value in measures.items()]
    times = Counter(name for _, name, _ in given)
    return {name if times[name] == 1 else f"{critic}.{name}": value for critic, name, value in given}


def _lowest_marks(critiques: Sequence[Critique]) -> tuple[Mark, ...]:
    """Returns, for each criterion, the lowest score that a critic gave: what is to be mended comes first."""
    lowest: dict[str, Mark] = {}
    for each in critiques:
        for mark in each.criteria:
            if mark.name not in lowest or mark.score < lowest[mark.name].score:
                lowest[mark.name] = mark if mark.scale or not each.scale else replace(mark, scale=each.scale)
    return tuple(lowest.values())


def _as_joined(lowest: Mark, joined: Mapping[str, float], critiques: Sequence[Critique]) -> Mark:
    """Returns the lowest mark of a criterion with its joined score, a share where the scales of critics differ."""
    score = joined.get(lowest.name, lowest.score)
    if score == lowest.score:
        return lowest
    scales = {mark.scale or each.scale for each in critiques for mark in each.criteria if mark.name == lowest.name}
    return replace(lowest, score=score, scale=lowest.scale if len(scales) == 1 else UNIT)


def lowest_marks(before: dict[str, float], said: Critique) -> dict[str, float]:
    """Returns the lowest score of each criterion, of those before and of a critique."""
    return {**before, **{each.name: min(each.score, before.get(each.name, 1.0)) for each in said.criteria}}
