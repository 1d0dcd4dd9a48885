"""Records the shapes of events, and a stream with every event, which `tests/events/messages/test_golden.py` compares.

    python tests/golden/write.py                    records the shapes of new events; refuses a shape that changed
    python tests/golden/write.py --stream v2        records a stream of today's events in the new folder v2
    python tests/golden/write.py --before-release   records all shapes anew: only while no release has written events

A changed event needs a new version: a new name in EVENT_NAMES (`draft.critiqued.v2`), an upcaster from the old name in
codec.UPCASTS, then the first two commands. Old shapes and streams stay: what was recorded once can be read for ever.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from redraft.events.encryption.cipher import Cipher
from redraft.events.messages.codec import GENESIS, encode_event
from redraft.events.messages.conditions import (
    approved,
    change,
    confidence,
    criterion,
    elapsed,
    errors,
    exit_,
    lowest,
    measure,
    oscillating,
    outputs,
    plateau,
    points,
    score,
    state,
)
from redraft.events.messages.content import (
    Brief,
    Critique,
    Detail,
    Draft,
    Edit,
    Files,
    Issue,
    Mark,
    Receipt,
    Refusal,
    new_draft,
)
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    BudgetReached,
    Choice,
    ChoicesCredited,
    Credit,
    CriticSkipped,
    DomainEvent,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    EventRef,
    ItemOf,
    IterationStarted,
    LessonStruck,
    LimitsChanged,
    LoopClosing,
    LoopEnded,
    PanelClosed,
    Parent,
    RunCancelled,
    RunEnded,
    RunErased,
    RunGuided,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
    StateChanged,
    StepFailed,
    StepRequested,
    Tally,
    VerdictLate,
)
from redraft.events.messages.envelope import Origin
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.lessons import Lesson, Lessons
from redraft.events.messages.plan import (
    Approve,
    Arm,
    Budget,
    Criterion,
    Each,
    LessonsSpec,
    Option,
    Parallel,
    Plan,
    Repeat,
    Retry,
    StateField,
    StateSpec,
    Step,
)
from redraft.events.messages.usage import Usage

GOLDEN: Final = Path(__file__).parent
SHAPES: Final = GOLDEN / "shapes.json"
RUN: Final = "golden-run"
STREAMS: Final = {"every-event.jsonl": b"", "sealed.jsonl": bytes(range(64))}
"""The files of a folder, and the key that the run's texts are sealed with; the same texts give the same bytes."""
START: Final = datetime(2026, 3, 1, 12, 0, 0, 125000, tzinfo=UTC)


def shapes() -> dict[str, Any]:
    """The JSON Schema of each event by its stored name, without what is only said of it."""
    return {name: _shape(kind) for kind, name in EVENT_NAMES.items()}


def changed(recorded: Mapping[str, Any]) -> list[str]:
    """The names of events whose shape is no longer the one that was recorded under this name."""
    return [name for name, shape in shapes().items() if name in recorded and recorded[name] != shape]


def events() -> Iterator[DomainEvent]:
    """Every event, with every field filled, and some with as little as can be."""
    first = new_draft(1, "Grüße aus 京都 🌊\n", "text/markdown")
    second = new_draft(2, "Greetings from Kyoto\n")
    model, prompt = "openai:gpt-5", "5f2b0c6d7e8f"
    used = Usage(120, 0.25, 2, 1, 100, 20, 1.5, model, prompt, "USD")
    brief = Brief("Why tides exist", "text/markdown", "tides.md")
    yield RunStarted(_plan(), brief, START, "key-1", ("spring", "for:ann"), Parent("first", 12), 3, _FILES)
    yield IterationStarted("Refinement", 1)
    yield StepRequested("write", "generator", "write", 1, START + timedelta(minutes=5))
    yield DraftGenerated("write", 1, first, used)
    yield DraftGenerated("write", 1, second)
    outs = (first.ref, second.ref)
    asked = StepRequested("Refinement[1]/improve", "refiner", "improve", 2, START, first.ref, (3, 4), 0.5, outs)
    asked = msgspec.structs.replace(asked, beside=outs)
    yield msgspec.structs.replace(
        asked, advice=(7,), oscillation=("draft 2 has the text of draft 1 again",), heat=1, reserved=Usage(1)
    )
    chosen = Choice("quick", (Tally("quick", 3, 1), Tally("thorough")))
    yield msgspec.structs.replace(asked, path="Refinement[1]/refine", actor="improve", attempt=1, choice=chosen)
    yield DraftCritiqued("Refinement[1]/judge", 1, first.ref, _critique(), used)
    yield DraftCritiqued("Refinement[1]/judge", 1, first.ref, Critique(1.0))
    yield DraftCritiqued("Refinement[1]/judge", 1, first.ref, Critique(0.0, approved=True, scored=False))
    yield DraftRefined(
        "Refinement[1]/improve", 2, first.ref, second, ("shorter", "clearer"), True, used, ("a joke: it stays",)
    )
    yield DraftRefined("Refinement[1]/improve", 2, first.ref, second)
    yield StepFailed("Refinement[1]/judge", 1, "timeout", "no answer within 5 s", START + timedelta(seconds=1.5), used)
    yield StepFailed("Refinement[1]/judge", 2, "error", 'it said "no"\nand left')
    yield LoopClosing("Refinement", "exhausted", "2 iterations")
    yield LoopEnded("Refinement", "accepted", "score >= 0.9", 2, second.ref, 0.95)
    yield LoopEnded("Refinement", "cancelled", "by hand", 1, first.ref)
    yield DraftPublished("publish", 1, second.ref, Receipt("out/tides.md", "written"), used)
    yield DraftPublished("publish", 1, second.ref, Receipt("out/tides.md"))
    yield RunGuided("say why", "ann", "it is not said", "key-2")
    yield LimitsChanged("Refinement", "ann", score >= 0.8, 7, "good enough", "key-3")
    yield LimitsChanged("Refinement", "ann", max_iterations=7)
    yield RunPaused("ann", "the facts are checked", "key-4")
    yield RunResumed("ann", "they are right", "key-5")
    yield RunCancelled("ann", "no longer needed", "key-6")
    yield ApprovalRequested("editor", second.ref, START + timedelta(days=1), ("ann", "ben"), 2)
    yield DraftApproved("editor", second.ref, "ann", "clear", "key-7", True)
    yield DraftRejected("editor", second.ref, "ben", "too short", "key-8")
    yield ApprovalExpired("editor", second.ref, "reject")
    yield DraftEdited(new_draft(3, "Greetings"), second.ref, "ann", "shorter", "key-9")
    yield PanelClosed("Refinement[1]/critics", 2, ("Refinement[1]/critics/other",))
    yield VerdictLate("Refinement[1]/critics/other", 1, first.ref, _critique(), used)
    yield BudgetReached("cost", 2.0, 1.75, 0.5, True)
    yield ChoicesCredited("article", (Credit("Refinement/refine", "quick", True), Credit("write", "other", False)))
    yield RunEnded("failed", "judge failed", 0)
    yield RunEnded("accepted", "score >= 0.9", 2, second.ref, 0.95)
    yield RunErased("ada")
    yield RunStarted(_plan_with_criteria(), brief, START, rules=3)
    yield msgspec.structs.replace(asked, scale=(1.0, 10.0))
    yield DraftCritiqued("Refinement[1]/judge", 1, first.ref, _critique_by_criteria(), used)
    yield VerdictLate("Refinement[1]/critics/other", 1, first.ref, _critique_by_criteria(), used)
    yield LoopEnded("Refinement", "accepted", "score 9 of 10 >= 8", 2, second.ref, 8 / 9, (1.0, 10.0))
    yield LimitsChanged("Refinement", "ann", (criterion.judge.accuracy >= 8) & (score >= points(1, of=10)))
    yield RunEnded("accepted", "score 9 of 10 >= 8", 2, second.ref, 8 / 9, (1.0, 10.0))
    yield RunErased("ada", "she asked for it")
    yield StateChanged("research", 1, {"sources": ["tides.org"]})
    yield RunQuarantined("ann", "its events contradict each other", "key-10")
    yield from _located(first, second)


def _located(first: Draft, second: Draft) -> Iterator[DomainEvent]:
    """Events with issues that have a place, and with edits."""
    improve = Step("refiner", "improve", "improve", only_issues=True)
    loop = Repeat("Refinement", errors == 0, 5, (Step("critic", "judge", "judge"), improve))
    plan = Plan("article", (Step("generator", "write", "write"), loop))
    yield RunStarted(plan, Brief("Why tides exist"), START, rules=3)
    greeting = Issue("wrong language", "Grüße", (0, 5), "tone", "error", "Greetings", "5f2b0c6d7e8f")
    critique = Critique(0.5, errors=("“Grüße”: wrong language",), issues=(greeting, Issue("no end", id="own-2")))
    yield DraftCritiqued("Refinement[1]/judge", 1, first.ref, critique)
    yield VerdictLate("Refinement[1]/critics/other", 1, first.ref, critique)
    edits = (Edit("Grüße aus 京都 🌊", "Greetings from Kyoto", ("5f2b0c6d7e8f",)),)
    refused = (Refusal("own-2", "it ends well"),)
    yield DraftRefined("Refinement[1]/improve", 1, first.ref, second, edits=edits, refusals=refused, saved_tokens=7)


def with_measures() -> Iterator[DomainEvent]:
    """The events of a run whose critics count."""
    first = new_draft(1, "Greetings from Kyoto\n")
    counts = ("failing", "coverage?")
    judge = Step("critic", "judge", "judge", gate=True, measures=counts, passes=measure.failing == 0)
    other = Step("critic", "prose", "prose", measures=("words", "failing"))
    until = (measure.words >= 300) & (measure.judge.failing == 0) & (change(measure.words) < 0.1) | (measure.all >= 1)
    loop = Repeat("Refinement", until, 5, (judge, other, Step("refiner", "improve", "improve")))
    yield RunStarted(Plan("article", (Step("generator", "write", "write"), loop)), Brief("Why"), START, rules=3)
    said = Critique(0.5, measures={"failing": 0, "coverage": 0.81}, critic="judge")
    yield DraftCritiqued("Refinement[1]/judge", 1, first.ref, said)
    only = Critique(0.0, scored=False, measures={"words": 312, "failing": -1.5}, critic="prose")
    yield VerdictLate("Refinement[1]/prose", 1, first.ref, only)
    yield LimitsChanged("Refinement", "ann", change("prose.words") <= 0.25)


def with_late_critics() -> Iterator[DomainEvent]:
    """The events of a run with a critic that runs late, and with the history for those who ask for it."""
    first = new_draft(1, "Greetings from Kyoto\n")
    judge = Step("critic", "judge", "judge", history=3, when=(score >= 0.7) & (errors == 0))
    write = Step("generator", "write", "write", history=0)
    loop = Repeat("Refinement", score >= 0.9, 5, (write, Step("critic", "prose", "prose"), judge))
    yield RunStarted(Plan("article", (loop,)), Brief("Why"), START, rules=4)
    yield CriticSkipped("Refinement[1]/judge", "judge", first.ref, "not score 0.50 >= 0.7")
    yield CriticSkipped("Refinement[2]/judge", "", first.ref)


def with_reuse() -> Iterator[DomainEvent]:
    """The events of a run in which a verdict is taken again."""
    again = new_draft(3, "Greetings from Kyoto\n")
    judge = Step("critic", "judge", "judge", reuse="always")
    loop = Repeat("Refinement", score >= 0.9, 5, (judge, Step("refiner", "improve", "improve")))
    yield RunStarted(Plan("article", (Step("generator", "write", "write"), loop)), Brief("Why"), START, rules=4)
    asked = StepRequested("Refinement[3]/judge", "critic", "judge", 1, START, again.ref)
    yield msgspec.structs.replace(asked, verdict_key="5f2b0c6d7e8f", reused=EventRef(RUN, 5))
    yield DraftCritiqued(
        "Refinement[3]/judge", 1, again.ref, Critique(0.5, critic="judge"), reused=EventRef("another-run", 5)
    )
    own = Critique(0.6, critic="judge")
    yield DraftCritiqued("Refinement[4]/judge", 1, new_draft(4, "Greetings").ref, own, hermetic=False)


def with_state() -> Iterator[DomainEvent]:
    """The events of a run with a state, which steps and all four roles change, and of a fork that changes it."""
    first, second = new_draft(1, "Greetings from Kyoto\n"), new_draft(2, "Greetings from Kyoto, where it rains\n")
    fields = (StateField("audience", "str"), StateField("share", "float", optional=True), StateField("notes"))
    spec = StateSpec(fields, {"audience": "adults", "share": None})
    own = Step("critic", "good_enough", "good_enough", measures=("good_enough",), condition=True)
    judge = Step("critic", "judge", "judge", writes=("share", "notes"))
    until = state.audience & (state.share >= 0.5) & (state.audience == "children") | (measure.good_enough >= 1)
    body = (judge, own, Step("step", "note", "note"), Step("refiner", "improve", "improve"))
    loop = Repeat("Refinement", until, 5, body)
    plan = Plan(
        "article", (Step("step", "research", "research"), Step("generator", "write", "write"), loop), state=spec
    )
    yield RunStarted(plan, Brief("Why", state={"notes": {"tone": ["dry", 1, 0.5, None, True]}}), START, rules=7)
    yield StepRequested("research", "step", "research", 1, START)
    yield StateChanged("research", 1, {"audience": "children", "notes": []}, Usage(12))
    yield StateChanged("Refinement[1]/note", 1)
    yield DraftGenerated("write", 1, first, state={"share": 0.25})
    yield DraftCritiqued("Refinement[1]/judge", 1, first.ref, Critique(0.5), state={"share": 1})
    yield DraftRefined("Refinement[1]/improve", 1, first.ref, second, state={"notes": "longer"})
    yield DraftPublished("publish", 1, second.ref, Receipt("out/tides.md"), state={"notes": None})
    yield StateChanged("", 0, {"audience": "adults"}, by="ann")


def with_lessons() -> Iterator[DomainEvent]:
    """The start and end of a run that is given lessons of earlier ones, one of which people then strike out."""
    moon = Lesson("0123456789abcdef", "Name the moon.", "judge", "suggestion", 3, 2, 1, "put in: the moon")
    given = Lessons(
        "article", 120, (moon, Lesson("fedcba9876543210", "Cite a source.", "judge", "error", 1, 1)), "late"
    )
    plan = Plan("essay", (Step("generator", "write", "write"),), lessons=LessonsSpec("article", 5))
    yield RunStarted(plan, Brief("Why"), START, rules=7, lessons=given)
    yield RunEnded("accepted", "all steps were done", 0)
    yield LessonStruck("0123456789abcdef", "essay", "ann", "it was about one text", key="k")
    yield LessonStruck("0123456789abcdef", "essay", "ann", withdrawn=True)


def with_items() -> Iterator[DomainEvent]:
    """A run that works on an item of another one, and asks for runs of its own items."""
    pieces = Each("Pieces", "item.sections", (Step("generator", "write", "write"),), 2)
    plan = Plan("book-Chapters", (pieces, Step("generator", "bind", "bind")), budget=Budget(calls=8))
    brief = Brief("Why", state={"item": {"title": "The moon", "sections": ["near", "far"]}, "index": 3})
    yield RunStarted(plan, brief, START, rules=7, of=ItemOf("book", "Chapters[3]"))
    due = START + timedelta(minutes=1)
    for number in (1, 2):
        yield StepRequested(f"Pieces[{number}]", "run", "Pieces", 1, due, reserved=Usage(calls=4))
    near, far = new_draft(1, "Far."), new_draft(2, "Near.")
    yield DraftGenerated("Pieces[2]", 1, near, Usage(20, calls=2))
    yield DraftGenerated("Pieces[1]", 1, far, Usage(10, calls=1))
    yield StepRequested("bind", "generator", "bind", 1, due, outputs=(far.ref, near.ref))
    yield StepFailed("bind", 1, "error", "out of paste")
    yield RunEnded("failed", "bind failed for good: out of paste", 0, far.ref)


ADDED: Final = {
    "measures.jsonl": with_measures,
    "late.jsonl": with_late_critics,
    "reuse.jsonl": with_reuse,
    "state.jsonl": with_state,
    "lessons.jsonl": with_lessons,
    "items.jsonl": with_items,
}
"""Further streams of the newest folder, each with the events of what came to a version later."""


def stream(key: bytes = b"", told: Callable[[], Iterator[DomainEvent]] = events) -> Iterator[dict[str, Any]]:
    """The lines of a recorded stream, each an event as it lies in the store; with a run's key, sealed."""
    seal = Cipher(RUN, key) if key else None
    previous = GENESIS
    for version, event in enumerate(told(), 1):
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" if version % 2 else ""
        cause, repeats = (f"message-{version}", f"first-{version}" if version < 13 else "") if version > 1 else ("", "")
        origin = Origin(f"event-{version}", "coordinator", cause, "start", trace, repeats)
        stored = encode_event(RUN, version, previous, START + timedelta(seconds=version), origin, event, seal)
        line = {"run": RUN, "version": version, "name": stored.name, "state": stored.state.decode()}
        yield {**line, "hash": stored.hash}
        previous = stored.hash


def main(arguments: Sequence[str]) -> str:
    """Does what the command line says; gives a line to end with when it will not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stream", metavar="vN", help="record a stream of today's events in this new folder")
    parser.add_argument(
        "--before-release", action="store_true", help="record all shapes anew; with --stream, also a stream"
    )
    asked = parser.parse_args(arguments)
    recorded = {} if asked.before_release or not SHAPES.exists() else json.loads(SHAPES.read_text())
    if names := changed(recorded):
        return f"{', '.join(names)}: the shape changed; give it a new name and an upcaster (see {Path(__file__).name})"
    if asked.stream and (GOLDEN / asked.stream).exists():
        return f"{asked.stream} is there already; recorded streams stay as they are: name a new folder"
    _write(SHAPES, json.dumps(recorded | shapes(), indent=1, sort_keys=True) + "\n")
    if asked.stream:
        for name, key in STREAMS.items():
            _write(GOLDEN / asked.stream / name, "".join(f"{json.dumps(line)}\n" for line in stream(key)))
        for name, told in ADDED.items():
            _write(GOLDEN / asked.stream / name, "".join(f"{json.dumps(line)}\n" for line in stream(told=told)))
    return ""


def _plan() -> Plan:
    until = ((score >= 0.9) & (errors == 0)) | ~approved | plateau(0.02, 3) | oscillating(5) | (outputs > 2) | exit_()
    options: dict[str, Option] = {"strict": True, "words": ["a", "b"]}
    judge = Step("critic", "judge", "judge", 30.0, Retry(5, 0.5, 3.0, 10.0), options, "3f2a9b01c4de", gate=True)
    other = Step("critic", "other", "other", options={"level": 2, "weight": 0.5, "names": {"a": "b"}, "say": "x"})
    critics = Parallel("critics", (judge, other), "all", "weights", (0.25, 0.75), None, 60.0)
    drafts = Parallel("drafts", (Step("generator", "write", "one"), Step("generator", "write", "two")), judge=judge)
    inner = Repeat("Inner", (elapsed > 60), 2, (Step("refiner", "improve", "improve"),), "last", 0.2, "tell")
    people = Approve("editor", ("ann", "ben"), 2, 3600.0, "fail")
    arms = (Arm("improve", "quick", {"level": 1}, "2"), Arm("improve", "thorough"))
    loop = Repeat("Refinement", until, 5, (critics, people, inner, Step("refiner", "", "refine", choose=arms)))
    return Plan(
        "article",
        (drafts, loop, Step("publisher", "save", "publish")),
        "publish_best",
        Budget(10, 2.0, 3, 60.0),
        Budget(cost=9.0),
    )


def _plan_with_criteria() -> Plan:
    criteria = (Criterion("accuracy", "every claim is right", weight=2.0), Criterion("tone", scale=(0.0, 100.0)))
    judge = Step(
        "critic", "judge", "judge", gate=True, scale=(1.0, 10.0), criteria=criteria, passes=criterion.tone >= 6
    )
    arms = (Arm("improve", "quick"), Arm("improve", "thorough", {"weights": {"accuracy": 2, "tone": 0.5}}))
    refine = Step("refiner", "", "refine", choose=arms, success=confidence >= 0.7)
    until = (lowest >= 0.6) | plateau(points(2, of=10.0), 1, "accuracy") | oscillating(3, "tone")
    loop = Repeat("Refinement", until, 5, (judge, refine), rollback_margin=1.0, rollback_of="tone", rollback_top=10.0)
    return Plan("article", (Step("generator", "write", "write"), loop))


def _critique_by_criteria() -> Critique:
    accuracy = Mark("accuracy", 8 / 9, 0.9, "the year is wrong", "in 1492")
    marks = (accuracy, Mark("tone", 0.5, scale=(0.0, 100.0)))
    return Critique(0.75, criteria=marks, confidence=0.9, scale=(1.0, 10.0), critic="judge")


_FILES: Final = Files("/home/ann/loop.py:loop", "/home/ann/actors.py", "5f2b0c6d7e8f")
_DETAILS: Final[dict[str, Detail]] = {"tone": "dry", "words": 12, "share": 0.5, "late": False, "model": None}


def _critique() -> Critique:
    return Critique(
        0.5, ("clear",), ("long",), ("cut the end",), ("typo in line 1",), False, "judge", (0.5, 0.25), details=_DETAILS
    )


def _shape(kind: type[DomainEvent]) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(json.dumps(msgspec.json.schema(kind)))
    for definition in schema["$defs"].values():
        definition.pop("description", None)
    return schema


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {path}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
