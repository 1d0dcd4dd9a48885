"""What critics said of a draft, as one rating, by the rules of the plan: docs/workflows.md says what they are."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import Literal

import msgspec

from redraft.events.content import Critique, DraftRef
from redraft.events.plan import Approve, Combine, Node, Parallel, Repeat, Role, Step


class Rating(msgspec.Struct, frozen=True):
    """A draft's joined score, the number of errors, the verdict, and the versions of the critiques.

    `gate` is `passed` where only gates have spoken, `failed` where one did not pass the draft.
    """

    score: float
    errors: int
    approved: bool | None
    critiques: tuple[int, ...]
    gate: Literal["", "passed", "failed"] = ""


class Rated(msgspec.Struct, frozen=True):
    """A draft, with its rating once its critics have spoken."""

    ref: DraftRef
    rating: Rating | None = None


def rating_of(version: int, critique: Critique, *, gate: bool) -> Rating:
    """One critique, recorded at this version."""
    said, errors = critique.approved, len(critique.errors)
    if not gate:
        return Rating(critique.score, errors, said, (version,))
    passed = said is True or (said is None and critique.score >= 1 and errors == 0)
    if passed:
        return Rating(critique.score, errors, said, (version,), "passed")
    return Rating(critique.score, errors, False, (version,), "failed")


def joined(ratings: Sequence[Rating], combine: Combine = "min", weights: Sequence[float] = ()) -> Rating:
    """Several ratings as one. Where a gate failed, only failed gates count; gates that passed only where alone."""
    if len(ratings) == 1:
        return ratings[0]
    critiques = tuple(version for each in ratings for version in each.critiques)
    failed = [each for each in ratings if each.gate == "failed"]
    if failed:
        errors = sum(each.errors for each in failed)
        return Rating(min(each.score for each in failed), errors, False, critiques, "failed")
    others = [number for number, each in enumerate(ratings) if not each.gate]
    counted = others or list(range(len(ratings)))
    heard = [ratings[number] for number in counted]
    if len(heard) == 1:
        return msgspec.structs.replace(heard[0], critiques=critiques)
    shares = [weights[number] for number in counted] if weights else ()
    verdicts = [each.approved for each in heard]
    approved = False if False in verdicts else (True if all(verdicts) else None)
    score = _score([each.score for each in heard], combine, shares, vetoed=approved is False)
    return Rating(score, sum(each.errors for each in heard), approved, critiques, heard[0].gate)


def _score(scores: Sequence[float], combine: Combine, weights: Sequence[float], *, vetoed: bool) -> float:
    if combine == "veto":
        return 0.0 if vetoed else fmean(scores)
    if combine == "weights" and sum(weights) > 0:
        return fmean(scores, weights)
    if combine == "mean":
        return fmean(scores)
    return median(scores) if combine == "median" else min(scores)


def failed_gate(draft: Rated | None) -> bool:
    """Whether a gate did not pass the draft."""
    return draft is not None and draft.rating is not None and draft.rating.gate == "failed"


def role_of(node: Node) -> Role | None:
    """The role of a step, or of those side by side; None for a loop and for people."""
    match node:
        case Step(role=role):
            return role
        case Parallel(steps=steps):
            return steps[0].role
        case Repeat() | Approve():
            return None


def is_critic(node: Node) -> bool:
    """Whether a node judges the current draft."""
    return role_of(node) == "critic"


def critics_of(loop: Repeat) -> tuple[Node, ...]:
    """The critics of a loop's own body."""
    return tuple(node for node in loop.body if is_critic(node))


def asks_people(loop: Repeat | None) -> bool:
    """Whether people decide on what leaves this loop."""
    return loop is not None and any(isinstance(node, Approve) for node in loop.body)


def publishes(node: Node) -> bool:
    """Whether a node gives the draft to publishers."""
    return role_of(node) == "publisher"


def wanted(node: Parallel) -> int:
    """How many answers a parallel needs."""
    if node.wait == "all":
        return len(node.steps)
    return 1 if node.wait == "first" else node.wait
