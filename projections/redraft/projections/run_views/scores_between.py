"""The numbers that critics gave two drafts, side by side: scores, criteria and measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from redraft.events.messages.content import Critique, number_text
from redraft.events.messages.domain_events import CriticSkipped, DraftCritiqued
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.scales import Scale, score_text


class ScoreChange(msgspec.Struct, frozen=True):
    """A number of a critic, by the name of its step, for two drafts; None where it gave none.

    It is a `score`, a criterion, `confidence` or a measure.

    A score is 0..1 and shown on `scale`; a measure is `counted`. Where the scales of critics differ, scores are
    `compared` by their shares, which stand beside them. `unasked` says about which draft the critic's condition kept it
    from being asked.
    """

    critic: str
    name: str
    before: float | None
    after: float | None
    scale: Scale | None = None
    counted: bool = False
    compared: bool = False
    unasked: Literal["", "before", "after"] = ""

    def shown(self, value: float | None) -> str:
        """Returns a number of this kind as people read it."""
        if value is None:
            return "none"
        return number_text(value) if self.counted else score_text(value, self.scale, beside=self.compared)

    def __str__(self) -> str:
        was = "not asked" if self.unasked == "before" else self.shown(self.before)
        now = "not asked" if self.unasked == "after" else self.shown(self.after)
        return f"{self.name} {was}{'' if was == now else f' → {now}'}"


def scores_between(events: Sequence[Recorded], before: int, after: int) -> tuple[ScoreChange, ...]:
    """Returns what each critic said of both drafts, by their versions in the run; of several times, the last."""
    said: dict[str, dict[int, Critique]] = {}
    skipped: set[tuple[str, int]] = set()
    for event in events:
        data = event.data
        if isinstance(data, DraftCritiqued) and data.draft.version in (before, after):
            said.setdefault(_step_of(data), {})[data.draft.version] = data.critique
        elif isinstance(data, CriticSkipped):
            skipped.add((_step_of(data), data.draft.version))
    found = [each for critic, of in said.items() for each in _compare(critic, of.get(before), of.get(after))]
    found = [_with_unasked(each, (each.critic, before) in skipped, (each.critic, after) in skipped) for each in found]
    compared = len({each.scale for each in found if each.name == "score" and not each.counted}) > 1
    return tuple(replace(each, compared=compared and each.name == "score") for each in found)


def _step_of(event: DraftCritiqued | CriticSkipped) -> str:
    """Returns the name of the critic's step, as `judge` for `judge[edit1]`: one actor may serve several."""
    return event.path.rpartition("/")[2].partition("[")[0]


def _compare(critic: str, before: Critique | None, after: Critique | None) -> Iterator[ScoreChange]:
    was, now = ({each.name: each for each in _numbers(said)} for said in (before, after))
    for name in dict.fromkeys((*was, *now)):
        first, second = was.get(name), now.get(name)
        kind = now[name] if name in now else was[name]
        before_it, after_it = (each.value if each else None for each in (first, second))
        yield ScoreChange(critic, name, before_it, after_it, kind.scale, kind.counted)


def _with_unasked(change: ScoreChange, before: bool, after: bool) -> ScoreChange:
    if before and change.before is None:
        return replace(change, unasked="before")
    return replace(change, unasked="after") if after and change.after is None else change


class _Number(msgspec.Struct, frozen=True):
    name: str
    value: float
    scale: Scale | None = None
    counted: bool = False


def _numbers(critique: Critique | None) -> Iterator[_Number]:
    """Yields the score of a critique, its criteria, confidence and measures."""
    if critique is None:
        return
    if critique.scored:
        yield _Number("score", critique.score, critique.scale)
    for mark in critique.criteria:
        yield _Number(mark.name, mark.score, mark.scale or critique.scale)
    if critique.confidence is not None:
        yield _Number("confidence", critique.confidence)
    for name, value in critique.measures.items():
        yield _Number(name, value, counted=True)
