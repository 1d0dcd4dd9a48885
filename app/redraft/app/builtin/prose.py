"""The workflow `prose`: a critic and a refiner for English in Markdown or plain text, and the plan that joins them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from redraft.actors.roles import Context, critic, refiner
from redraft.app.builtin.options import read_options
from redraft.app.builtin.prose_reading import judge, read
from redraft.app.builtin.prose_report import ERRORS, WEAKNESSES, critique, said
from redraft.app.builtin.release import RELEASE
from redraft.events.conditions import errors, plateau, score
from redraft.events.content import Critique, Draft, Revision
from redraft.events.plan import Option, Plan, Repeat, Step

__all__ = ["ProseOptions", "prose_critic", "prose_plan", "prose_refiner"]


class ProseOptions(msgspec.Struct, frozen=True):
    """`ignore`: words that are right here, whatever the dictionary says: names, terms of the trade."""

    ignore: tuple[str, ...] = ()


@critic(name="prose", version=RELEASE)
def prose_critic(draft: Draft, context: Context) -> Critique:
    """Judges spelling, doubled words, wordiness, style and readability of the draft's English; options: ProseOptions.

    Raises PermanentError when an option is wrong or codespell's dictionary is not installed.
    """
    reading = read(draft.text, _options(context, "prose").ignore)
    return critique(reading.prose, judge(reading))


@refiner(name="prose-fix", version=RELEASE)
def prose_refiner(draft: Draft, context: Context) -> Revision:
    """Puts right what is surely wrong: misspellings, doubled words, wordy phrases; all else stays, byte by byte.

    The same text comes back with `exit=True` when there is nothing to put right. Options and errors are the critic's.
    """
    reading = read(draft.text, _options(context, "prose-fix").ignore)
    changes = said(reading.prose, reading.findings, (*ERRORS, *WEAKNESSES))
    return Revision(reading.rewritten, changes, exit=reading.rewritten == draft.text)


def prose_plan(
    max_iterations: int = 5,
    threshold: float = 0.95,
    publish: Literal["file", "stdout"] = "file",
    ignore: Sequence[str] = (),
) -> Plan:
    """The plan: the source as it is, then critique and refine until good or no longer better, then publish.

    Good means a score of at least `threshold` (0..1) and no errors. `max_iterations` is at least 1. `ignore`: words
    that are right here.
    """
    loop = Repeat(
        name="Refinement",
        until=(score >= threshold) & (errors == 0) | plateau(gain=0.001, over=2),
        max_iterations=max_iterations,
        body=(
            Step("critic", "prose", "critique", options=_ignoring(ignore)),
            Step("refiner", "prose-fix", "refine", options=_ignoring(ignore)),
        ),
    )
    return Plan("prose", (Step("generator", "source", "generate"), loop, Step("publisher", publish, "publish")))


def _ignoring(words: Sequence[str]) -> dict[str, Option]:
    return {"ignore": list(words)} if words else {}


def _options(context: Context, actor: str) -> ProseOptions:
    return read_options(ProseOptions, context.options, actor)
