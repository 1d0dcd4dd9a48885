"""Recorded streams of whole runs, made by the codec itself, so that hashes and bytes are those of a real store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from msgspec.structs import replace

from redraft.events.messages.codec import GENESIS, decode_event, encode_event
from redraft.events.messages.conditions import Compare, errors, plateau, score
from redraft.events.messages.content import Brief, Critique, Draft, DraftRef, Receipt, new_draft
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    IterationStarted,
    LoopClosing,
    LoopEnded,
    RunEnded,
    RunStarted,
    StepAnswered,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.plan import Parallel, Plan, Repeat, Role, Step

START: Final = datetime(2025, 3, 9, 14, 30, 2, 125000, tzinfo=UTC)
Told: TypeAlias = tuple[str, DomainEvent]
"""Who said it, and what."""
Raw: TypeAlias = tuple[int, str, bytes, int]
"""An event's version, stored name, stored bytes, and position in the log."""

TEXTS: Final = (
    """# Why tides exist

Teh sea rises twice a day becuase of the the moon. It is due to the fact that gravity is a thing that pulls, and the
water which is nearest to the moon is pulled most of all.

The sun do it too.
""",
    """# Why tides exist

The sea rises twice a day because of the moon. It is due to the fact that gravity is a thing that pulls, and the
water which is nearest to the moon is pulled most of all.

The sun does it too, but less.
""",
    """# Why tides exist

The sea rises twice a day because of the moon. Gravity pulls most on the water nearest to the moon, and least on the
water farthest from it, so that the sea bulges on both sides.

The sun does it too, with about half the strength. When both pull in line, the tide is a spring tide.
""",
)


def article(texts: Sequence[str] = TEXTS, run: str = "01JQ-article", actor: str = "judge") -> tuple[Recorded, ...]:
    """An accepted run: a draft, two refinements, one attempt that failed, and a publication."""
    return recorded(run, article_told(texts, actor))


def article_told(texts: Sequence[str] = TEXTS, actor: str = "judge", name: str = "article") -> list[Told]:
    """What `article` tells."""
    first, second, third = (new_draft(number, text) for number, text in enumerate(texts, start=1))
    until = (score >= 0.9) & (errors == 0) | plateau(gain=0.01, over=2)
    body = (Step("critic", actor, actor), Step("refiner", "improve", "improve"))
    plan = Plan(
        name,
        (
            Step("generator", "write", "write"),
            Repeat("Refinement", until, 5, body),
            Step("publisher", "save", "save"),
        ),
    )
    spelling = Critique(
        0.614, ("a clear subject",), ("careless spelling",), ("spell it right",), ("Teh", "becuase"), critic=actor
    )
    wordy = Critique(
        0.8125, ("spelling is right",), ("wordy",), ("say `because`", "say how much the sun does"), critic=actor
    )
    good = Critique(0.931, ("clear", "short"), approved=True, critic=actor)
    return [
        ("coordinator", RunStarted(plan, Brief("Why tides exist", source="essay.md"), START)),
        *_step("write", "generator", "write", DraftGenerated("write", 1, first)),
        ("coordinator", IterationStarted("Refinement", 1)),
        *_judged(f"Refinement[1]/{actor}", actor, first.ref, spelling),
        *_refined(
            "Refinement[1]/improve", first, second, (6,), 0.614, ("fixed 3 spellings", "took out a doubled word")
        ),
        ("coordinator", IterationStarted("Refinement", 2)),
        *_judged(f"Refinement[2]/{actor}", actor, second.ref, wordy),
        ("coordinator", _asked("Refinement[2]/improve", "refiner", "improve", second.ref, (11,), 0.8125)),
        (
            "improve",
            StepFailed("Refinement[2]/improve", 1, "error", "the model is busy (503)", START + timedelta(minutes=1)),
        ),
        ("timekeeper", _asked("Refinement[2]/improve", "refiner", "improve", second.ref, (11,), 0.8125, attempt=2)),
        ("improve", DraftRefined("Refinement[2]/improve", 2, second.ref, third, ("said how tides come about",))),
        ("coordinator", IterationStarted("Refinement", 3)),
        *_judged(f"Refinement[3]/{actor}", actor, third.ref, good),
        (
            "coordinator",
            LoopEnded("Refinement", "accepted", "the condition holds: score 0.931 >= 0.9", 3, third.ref, 0.931),
        ),
        *_step(
            "save",
            "publisher",
            "save",
            DraftPublished("save", 1, third.ref, Receipt("out/essay.md", "1 file")),
            third.ref,
            (third.ref,),
        ),
        ("coordinator", RunEnded("accepted", "the condition holds: score 0.931 >= 0.9", 3, third.ref, 0.931)),
    ]


def book(chapters: int = 2, run: str = "01JQ-book") -> tuple[Recorded, ...]:
    """An exhausted run: loops in a loop, critics side by side, and a closing pass."""
    return recorded(run, book_told(chapters))


def book_told(chapters: int = 2) -> list[Told]:
    """What `book` tells."""
    critics = (Step("critic", "prose", "prose"), Step("critic", "facts", "facts"))
    inner = Repeat(
        "ChapterRefinement",
        score >= 0.95,
        1,
        (Parallel("critics", critics, combine="mean"), Step("refiner", "improve", "improve")),
    )
    outer = Repeat("Chapters", Compare("outputs", ">=", 9), chapters, (Step("generator", "write", "write"), inner))
    told: list[Told] = [("coordinator", RunStarted(Plan("book", (outer,)), Brief("A book"), START))]
    finished: tuple[DraftRef, ...] = ()
    for chapter in range(1, chapters + 1):
        loop = f"Chapters[{chapter}]/ChapterRefinement"
        one, two = (new_draft(chapter * 2 - back, f"Chapter {chapter}, version {2 - back}.") for back in (1, 0))
        passed: list[Told] = [
            ("coordinator", IterationStarted("Chapters", chapter)),
            *_step(
                f"Chapters[{chapter}]/write", "generator", "write", DraftGenerated(f"Chapters[{chapter}]/write", 1, one)
            ),
            ("coordinator", IterationStarted(loop, 1)),
            *_pair(f"{loop}[1]/critics", one.ref, 0.5),
            *_refined(f"{loop}[1]/improve", one, two, (chapter * 16 - 8, chapter * 16 - 7), 0.55, ()),
            ("coordinator", LoopClosing(loop, "exhausted", "1 pass was made")),
            *_pair(f"{loop}[closing]/critics", two.ref, 0.7),
            ("coordinator", LoopEnded(loop, "exhausted", "1 pass was made", 1, two.ref, 0.75)),
        ]
        told += _after(finished, passed)
        finished += (two.ref,)
    kept = finished[-1]
    told.append(
        ("coordinator", LoopEnded("Chapters", "exhausted", f"{chapters} passes were made", chapters, kept, 0.75))
    )
    told.append(("coordinator", RunEnded("exhausted", f"{chapters} passes were made", chapters, kept, 0.75)))
    return told


def recorded(run: str, told: Sequence[Told]) -> tuple[Recorded, ...]:
    """These events as a store gives them back."""
    return tuple(
        decode_event(run, version, name, state, position) for version, name, state, position in stored(run, told)
    )


def stored(run: str, told: Sequence[Told]) -> tuple[Raw, ...]:
    """These events as a store keeps them: 1.75 s apart, at position version + 100, each caused by the one before.

    An answer is caused by its request.
    """
    raws: list[Raw] = []
    previous = GENESIS
    asked: dict[str, int] = {}
    for version, (actor, event) in enumerate(told, start=1):
        path = getattr(event, "path", "")
        cause = asked.get(path, version - 1) if isinstance(event, StepAnswered | VerdictLate) else version - 1
        if isinstance(event, StepRequested):
            asked[path] = version
        origin = Origin(f"{run}/{version}", actor, f"{run}/{cause}" if cause else "", run)
        encoded = encode_event(run, version, previous, START + timedelta(seconds=1.75 * (version - 1)), origin, event)
        raws.append((version, encoded.name, encoded.state, version + 100))
        previous = encoded.hash
    return tuple(raws)


def _asked(
    path: str,
    role: Role,
    actor: str,
    draft: DraftRef | None = None,
    critiques: tuple[int, ...] = (),
    score: float | None = None,
    attempt: int = 1,
) -> StepRequested:
    return StepRequested(path, role, actor, attempt, START + timedelta(minutes=5), draft, critiques, score)


def _step(
    path: str,
    role: Role,
    actor: str,
    answer: DomainEvent,
    draft: DraftRef | None = None,
    outputs: tuple[DraftRef, ...] = (),
) -> list[Told]:
    return _after(outputs, [("coordinator", _asked(path, role, actor, draft)), (actor, answer)])


def _after(outputs: tuple[DraftRef, ...], told: Sequence[Told]) -> list[Told]:
    """The same, asked for once these drafts were finished."""
    return [
        (actor, replace(event, outputs=outputs) if isinstance(event, StepRequested) else event) for actor, event in told
    ]


def _judged(path: str, actor: str, draft: DraftRef, critique: Critique) -> list[Told]:
    return _step(path, "critic", actor, DraftCritiqued(path, 1, draft, critique), draft)


def _refined(
    path: str, before: Draft, after: Draft, critiques: tuple[int, ...], score: float, changes: tuple[str, ...]
) -> list[Told]:
    asked = _asked(path, "refiner", "improve", before.ref, critiques, score)
    return [("coordinator", asked), ("improve", DraftRefined(path, 1, before.ref, after, changes))]


def _pair(path: str, draft: DraftRef, lower: float) -> list[Told]:
    names = ("prose", "facts")
    asked: list[Told] = [("coordinator", _asked(f"{path}/{name}", "critic", name, draft)) for name in names]
    said: list[Told] = [
        (name, DraftCritiqued(f"{path}/{name}", 1, draft, Critique(lower + number / 10, critic=name)))
        for number, name in enumerate(names)
    ]
    return asked + said
