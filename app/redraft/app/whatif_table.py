"""Policies compared over many recorded runs: sums only, so that it takes no more room for more runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from redraft.actors.whatif import Course

AS_RECORDED = "as recorded"


class Row(msgspec.Struct, frozen=True):
    """A policy over `runs` records, of which `ended_early` hold too little to say how the run would have ended.

    The means and the share of accepted runs (0..1) are over all others; None where there are none. A score is that of
    the final draft, 0..1, where it was judged.
    """

    policy: str
    runs: int
    ended_early: int
    mean_steps: float | None
    mean_score: float | None
    accepted: float | None


class Tally:
    """What is known of one policy so far."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._runs = self._ended = self._steps = self._accepted = self._scored = 0
        self._score = 0.0

    def add(self, course: Course) -> None:
        self._runs += 1
        if course.outcome is None:
            return
        self._ended += 1
        self._steps += course.steps
        self._accepted += course.outcome == "accepted"
        if course.score is not None:
            self._scored += 1
            self._score += course.score

    def row(self) -> Row:
        return Row(
            self._policy,
            self._runs,
            self._runs - self._ended,
            self._steps / self._ended if self._ended else None,
            self._score / self._scored if self._scored else None,
            self._accepted / self._ended if self._ended else None,
        )


def rows(tallies: Sequence[Tally]) -> tuple[Row, ...]:
    return tuple(tally.row() for tally in tallies)
