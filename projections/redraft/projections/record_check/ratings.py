"""Joins critiques into ratings, by the rules that docs/workflows.md explains; finds drafts that go back and forth."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import Final, Literal

import msgspec

from redraft.events.messages.conditions import (
    CONFIDENCE,
    LOWEST,
)
from redraft.events.messages.content import Draft, DraftRef
from redraft.events.messages.plan import Approve, Combine, Each, Node, Parallel, Repeat, Role, Step
from redraft.events.messages.scales import Scale


class Rating(msgspec.Struct, frozen=True):
    """A draft's joined score, the number of errors, the verdict, and the versions of the critiques.

    `gate` is `passed` when only gates have judged, `failed` when a gate refused the draft. It is not `scored` if
    critics gave verdicts only. `scale` is what all its critics declare. `marks` are joined scores of criteria, `own`
    those of single critics, by their names in conditions. `counts` are the measures that critics gave. `silent` is
    True when one of the critics of the row, gates aside, has a criterion that nobody scored. A condition of one's own
    is `aside`: it neither approves nor refuses. One that is `broken` is no rating: a step failed that was to look at
    the draft.
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
    counts: dict[tuple[str, str], float] = {}
    silent: bool = False
    aside: bool = False
    broken: bool = False

    def named(self, name: str) -> float:
        """The share of what a condition names; 0 for what no critic that answered gave."""
        if name in ("", "score"):
            return self.score
        if name == LOWEST:
            return min([value for each, value in self.marks.items() if each != CONFIDENCE] or [0.0])
        if "." in name or name in self.marks:
            return (self.own if "." in name else self.marks).get(name, 0.0)
        return min(self._by_critics(name), default=0.0)

    def has(self, name: str) -> bool:
        """Whether a critic that answered gave what a condition names."""
        if name == LOWEST:
            return any(each != CONFIDENCE for each in self.marks)
        return name in ("", "score", *self.own, *self.marks) or bool(self._by_critics(name))

    def _by_critics(self, criterion: str) -> list[float]:
        """Returns the scores that each critic, or gate, gave this criterion, by the names `critic.criterion`."""
        return [value for name, value in self.own.items() if name.split(".")[-1] == criterion]


class Rated(msgspec.Struct, frozen=True):
    """A draft, with its rating once its critics have judged it."""

    ref: DraftRef
    rating: Rating | None = None

    @property
    def score(self) -> float | None:
        return self.rating.score if self.rating and self.rating.scored else None

    @property
    def shown(self) -> tuple[float | None, Scale | None]:
        """The score, and the scale that is recorded beside it."""
        return self.score, self.rating.scale if self.rating and self.rating.scored else None


def join_ratings(ratings: Sequence[Rating], combine: Combine = "min", weights: Sequence[float] = ()) -> Rating:
    """Joins several ratings. If a gate failed, only failed gates count; gates that passed count only on their own."""
    if len(ratings) == 1:
        return ratings[0]
    joined = _join_heard(ratings, combine, weights)
    counts: dict[tuple[str, str], float] = {}
    for each in ratings:
        counts.update(each.counts)
    return msgspec.structs.replace(joined, counts=counts) if counts else joined


def heed_gates(joined: Rating, ratings: Sequence[Rating], rules: int) -> Rating:
    """Returns the joined rating, by rules 6 with the scores of passed gates in `own`, which joining leaves out."""
    if rules >= 6 and joined.gate == "" and any(each.gate for each in ratings):
        own = dict(pair for each in ratings for pair in each.own.items())
        return msgspec.structs.replace(joined, own=own)
    return joined


def _join_heard(ratings: Sequence[Rating], combine: Combine, weights: Sequence[float]) -> Rating:
    critiques = tuple(version for each in ratings for version in each.critiques)
    failed = [each for each in ratings if each.gate == "failed"]
    if failed:
        errors = sum(each.errors for each in failed)
        numbers = [each.score for each in failed if each.scored]
        rating = Rating(min(numbers, default=0.0), errors, False, critiques, "failed", bool(numbers))
        if len(failed) == 1:
            return msgspec.structs.replace(failed[0], critiques=critiques)
        return _with_marks(rating, failed, "min", [])
    others = [number for number, each in enumerate(ratings) if not each.gate]
    counted = others or list(range(len(ratings)))
    heard = [ratings[number] for number in counted]
    if len(heard) == 1:
        return msgspec.structs.replace(heard[0], critiques=critiques)
    numbered = [number for number in counted if ratings[number].scored] or counted
    shares = [weights[number] for number in numbered] if weights else ()
    verdicts = [each.approved for each in heard if not each.aside] or [None]
    approved = False if False in verdicts else (True if all(verdicts) else None)
    score = _join_scores([ratings[number].score for number in numbered], combine, shares, vetoed=approved is False)
    scored = any(each.scored for each in heard)
    rating = Rating(score, sum(each.errors for each in heard), approved, critiques, heard[0].gate, scored)
    theirs = [weights[number] for number in counted] if weights else []
    return _with_marks(rating, heard, combine, theirs)


def _with_marks(rating: Rating, heard: Sequence[Rating], combine: Combine, weights: Sequence[float]) -> Rating:
    """Adds the scale of these ratings, and their criteria, each joined from those that have it."""
    if all(not each.own for each in heard):
        return rating
    scales = list({each.scale for each in heard if each.scored} or {each.scale for each in heard})
    marks: dict[str, float] = {}
    for name in {name for each in heard for name in each.marks}:
        having = [number for number, each in enumerate(heard) if name in each.marks]
        shares = [weights[number] for number in having] if weights else []
        how = "min" if name == CONFIDENCE else combine
        values = [heard[number].marks[name] for number in having]
        marks[name] = _join_scores(values, how, shares, vetoed=rating.approved is False)
    own = {name: value for each in heard for name, value in each.own.items()}
    return msgspec.structs.replace(rating, scale=scales[0] if len(scales) == 1 else None, marks=marks, own=own)


def _join_scores(scores: Sequence[float], combine: Combine, weights: Sequence[float], *, vetoed: bool) -> float:
    if combine == "veto":
        return 0.0 if vetoed else fmean(scores)
    if combine == "weights" and sum(weights) > 0:
        return fmean(scores, weights)
    if combine == "mean":
        return fmean(scores)
    return median(scores) if combine == "median" else min(scores)


def failed_gate(draft: Rated | None) -> bool:
    """Returns whether a gate refused the draft."""
    return draft is not None and draft.rating is not None and draft.rating.gate == "failed"


def role_of(node: Node) -> Role | None:
    """Returns the role of a step, or of the steps of a parallel; None for a loop and an approval."""
    match node:
        case Step(role=role):
            return role
        case Parallel(steps=steps):
            return steps[0].role
        case Repeat() | Approve() | Each():
            return None


def is_critic(node: Node) -> bool:
    """Returns whether a node judges the current draft."""
    return role_of(node) == "critic"


def critics_of(loop: Repeat) -> tuple[Node, ...]:
    """Returns the critics of a loop's own body."""
    return tuple(node for node in loop.body if is_critic(node))


def judges_itself(loop: Repeat | None) -> bool:
    """Returns whether critics, or a judge, stand in a loop's own body."""
    judges = [each for each in loop.body if isinstance(each, Parallel) and each.judge is not None] if loop else []
    return loop is not None and bool(judges or critics_of(loop))


def row_before(body: Sequence[Node], index: int) -> tuple[Node, ...]:
    """Returns the row of critics before this place, with the free steps that stand between them."""
    start = index
    while start and role_of(body[start - 1]) in ("critic", "step"):
        start -= 1
    return tuple(body[start:index])


def closing_nodes(loop: Repeat) -> tuple[Node, ...]:
    """Returns the critics and free steps of a loop's own body that look at its last draft."""
    return tuple(node for node in loop.body if role_of(node) in ("critic", "step") and not _looks_at_none(node))


def _looks_at_none(node: Node) -> bool:
    steps = node.steps if isinstance(node, Parallel) else (node,)
    return all(isinstance(each, Step) and each.about_run for each in steps)


def asks_people(loop: Repeat | None) -> bool:
    """Returns whether people decide on what leaves this loop."""
    return loop is not None and any(isinstance(node, Approve) for node in loop.body)


def publishes(node: Node) -> bool:
    """Returns whether a node gives the draft to publishers."""
    return role_of(node) == "publisher"


def answers_needed(node: Parallel) -> int:
    """Returns how many answers a parallel needs."""
    if node.wait == "all":
        return len(node.steps)
    return 1 if node.wait == "first" else node.wait


_REMEMBERED: Final = 32
_MAX_TOLD: Final = 5
_MAX_LINES: Final = 20_000


class Version(msgspec.Struct, frozen=True):
    """A draft of a loop, the version that it was made from (0: none), and its lines if they are known."""

    version: int
    before: int
    sha256: str
    lines: frozenset[str] | None


class Swings(msgspec.Struct):
    """A loop's memory of oscillation: its latest drafts, whether the last one swung back, and how often any did."""

    known: tuple[Version, ...] = ()
    swung: bool = False
    count: int = 0

    @property
    def reported(self) -> int:
        """How many oscillations the next refiner is informed of."""
        return min(self.count, _MAX_TOLD)

    def note(self, draft: Draft | DraftRef, before: int) -> None:
        """Adds the next draft of the loop."""
        made = Version(draft.version, before, draft.sha256, _lines(draft))
        self.swung = bool(before) and self._swings(made)
        self.count += self.swung
        self.known = (*self.known, made)[-_REMEMBERED:]

    def _swings(self, made: Version) -> bool:
        parent = self._at(made.before)
        if parent is not None and parent.sha256 == made.sha256:
            return False
        if any(each.sha256 == made.sha256 for each in self.known):
            return True
        first = self._at(parent.before) if parent else None
        if parent is None or first is None or None in (first.lines, parent.lines, made.lines):
            return False
        old, middle, new = first.lines or frozenset(), parent.lines or frozenset(), made.lines or frozenset()
        return bool((middle - old) - new) and bool((old - middle) & new)

    def _at(self, version: int) -> Version | None:
        return next((each for each in reversed(self.known) if each.version == version), None)


def _lines(draft: Draft | DraftRef) -> frozenset[str] | None:
    if isinstance(draft, DraftRef):
        return None
    lines = draft.text.splitlines()
    return frozenset(line.strip() for line in lines if line.strip()) if len(lines) <= _MAX_LINES else None
