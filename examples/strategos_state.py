"""Strategos' loops by their state: until the quality is there, little changes, no errors are left, the tests pass, and
a book has its chapters, each refined in a loop of its own.

Where theirs says `condition: state => state.AllTestsPassing`, here stands `until=state.all_tests_passing`; what only
changes the state is a free step. Each function stands where a step of theirs asks a model.
Run it: `python examples/strategos_state.py`
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict, dataclass, field

from redraft.actors import (
    Context,
    Critique,
    Draft,
    Revision,
    WithState,
    Workflow,
    critic,
    generator,
    publisher,
    refiner,
    repeat,
    state,
    step,
)
from redraft.app import refine

POINTS = ("The moon pulls at the sea.", "The sun helps it.", "Twice a day the water rises.")


@dataclass
class CritiqueResult:
    """What a critique said."""

    score: float
    strengths: list[str]
    weaknesses: list[str]
    suggestions: list[str]


@dataclass
class RefinementAttempt:
    """What a refinement changed."""

    iteration: int
    before_content: str
    after_content: str
    changes_applied: list[str]


@dataclass
class RefinementState:
    """The state of the loops of content. What theirs mark with [Append] is written out: the list, and one more."""

    topic: str = "Tides"
    current_draft: str = ""
    quality_score: float = 0.0
    improvement_delta: float = 1.0
    iteration_count: int = 0
    critique_history: list[CritiqueResult] = field(default_factory=list)
    refinement_history: list[RefinementAttempt] = field(default_factory=list)
    final_content: str = ""


def quality(text: str) -> float:
    return sum(point in text for point in POINTS) / len(POINTS)


@generator(name="GenerateDraft")
def generate_draft(context: Context) -> WithState:
    draft = f"{context.state.topic}:"
    return WithState(draft, {"current_draft": draft, "iteration_count": 0})


@critic(name="Critique")
def critique_draft(draft: Draft, context: Context) -> WithState:
    """Says what is missing, and puts the score into the state, where the condition looks for it."""
    there = [point for point in POINTS if point in draft.text]
    missing = [point for point in POINTS if point not in draft.text]
    critique = CritiqueResult(quality(draft.text), there, missing, missing[:1])
    history = [*context.state.critique_history, asdict(critique)]
    said = Critique(critique.score, tuple(there), tuple(missing), tuple(critique.suggestions))
    return WithState(said, {"quality_score": critique.score, "critique_history": history})


@refiner(name="Refine")
def refine_draft(draft: Draft, context: Context) -> WithState:
    """Does what the last critique in the state suggests, and adds the attempt to those before."""
    changes = context.state.critique_history[-1]["suggestions"]
    refined = " ".join((draft.text, *changes))
    attempt = RefinementAttempt(context.state.iteration_count + 1, draft.text, refined, changes)
    return WithState(
        Revision(refined, changes=tuple(changes)),
        {
            "current_draft": refined,
            "iteration_count": attempt.iteration,
            "refinement_history": [*context.state.refinement_history, asdict(attempt)],
        },
    )


@refiner(name="Iterate")
def iterate(draft: Draft) -> str:
    missing = [point for point in POINTS if point not in draft.text]
    return " ".join((draft.text, *(missing[:1] or ["That is all."])))


@step(name="MeasureDelta", writes=["quality_score", "improvement_delta"])
def measure_delta(draft: Draft, context: Context) -> dict[str, float]:
    found = quality(draft.text)
    return {"quality_score": found, "improvement_delta": found - context.state.quality_score}


@publisher(name="Publish")
def publish(draft: Draft) -> WithState:
    return WithState(f"draft {draft.version}", {"final_content": draft.text})


DESIGN = {"title": 48, "text": 6, "margin": 0}
LEAST = {"text": 9, "margin": 10}


@generator(name="GenerateDesign")
def generate_design() -> str:
    return "\n".join(f"{part} {size}" for part, size in DESIGN.items())


@step(name="Validate", writes=["errors"])
def validate(draft: Draft) -> dict[str, list[str]]:
    sizes = {part: int(size) for part, _, size in (line.partition(" ") for line in draft.text.splitlines())}
    return {"errors": [f"{part} is below {least}" for part, least in LEAST.items() if sizes[part] < least]}


@refiner(name="FixErrors")
def fix_errors(draft: Draft, context: Context) -> Revision:
    """Mends the first of the errors that the state has."""
    part, _, least = context.state.errors[0].partition(" is below ")
    lines = [f"{part} {least}" if line.startswith(f"{part} ") else line for line in draft.text.splitlines()]
    return Revision("\n".join(lines), changes=(context.state.errors[0],))


TABLE = "create table tide (place text, height real)"
QUERY = "select plaice, max(hight) from tides"
RIGHT = {"tides": "tide", "plaice": "place", "hight": "height"}


@generator(name="GenerateQuery")
def generate_query() -> str:
    return QUERY


@step(name="Execute", writes=["sql_error"])
def execute(draft: Draft) -> dict[str, str]:
    """Runs the query against the schema; the database's own message becomes a value of the state."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(TABLE)
        try:
            database.execute(draft.text)
        except sqlite3.Error as error:
            return {"sql_error": str(error)}
    return {"sql_error": ""}


@refiner(name="ReviseQuery")
def revise_query(draft: Draft, context: Context) -> Revision:
    """Mends what the database's message names last: `no such column: plaice`."""
    wrong = context.state.sql_error.rpartition(" ")[2]
    return Revision(draft.text.replace(wrong, RIGHT[wrong]), changes=(context.state.sql_error,))


RULES = ("year % 4 == 0", " and year % 100 != 0", " or year % 400 == 0")
TESTS = """
for year, leap in {2024: True, 2023: False, 1900: False, 2000: True}.items():
    if is_leap(year) is not leap:
        print(f"is_leap({year}) is not {leap}")
"""
CAUSES = {"is_leap(1900) is not False": RULES[1], "is_leap(2000) is not True": RULES[2]}


@dataclass
class CodeState:
    """The state of the loop of code: what the tests say, and what was found to be their cause."""

    all_tests_passing: bool = False
    failures: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)


def code_for(causes: list[str]) -> str:
    return f"def is_leap(year):\n    return {RULES[0]}{''.join(causes)}\n"


@generator(name="GenerateCode")
def generate_code(context: Context) -> str:
    """Writes the code, in each iteration anew: the state says what the failures before came from."""
    return code_for(context.state.causes)


@step(name="RunTests", writes=["all_tests_passing", "failures"])
def run_tests(draft: Draft) -> dict[str, object]:
    program = [sys.executable, "-I", "-c", draft.text + TESTS]
    failures = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    return {"all_tests_passing": not failures, "failures": failures}


@step(name="AnalyzeFailures", writes=["causes"])
def analyze_failures(context: Context) -> dict[str, list[str]]:
    return {"causes": [*context.state.causes, *(CAUSES[each] for each in context.state.failures[:1])]}


@refiner(name="RefineCode")
def refine_code(draft: Draft, context: Context) -> Revision:
    return Revision(code_for(context.state.causes), changes=tuple(context.state.failures))


@dataclass
class BookState:
    """The state of the book: how many chapters were begun, and how good the last one is."""

    chapter_count: int = 0
    chapter_quality: float = 0.0


@generator(name="GenerateChapter")
def generate_chapter(context: Context) -> WithState:
    number = context.state.chapter_count + 1
    return WithState(f"Chapter {number}:", {"chapter_count": number})


@critic(name="CritiqueChapter")
def critique_chapter(draft: Draft) -> WithState:
    return WithState(quality(draft.text), {"chapter_quality": quality(draft.text)})


@refiner(name="RefineChapter")
def refine_chapter(draft: Draft) -> str:
    return " ".join((draft.text, *[point for point in POINTS if point not in draft.text][:2]))


content = (
    Workflow("iterative-refinement", state=RefinementState)
    .start_with(generate_draft)
    .repeat_until(state.quality_score >= 0.9, max_iterations=5, name="Refinement", body=[critique_draft, refine_draft])
    .finally_(publish)
)
book = Workflow("book-writing", state=BookState).repeat_until(
    state.chapter_count >= 5,
    max_iterations=10,
    name="Chapters",
    body=[
        generate_chapter,
        repeat(
            "ChapterRefinement",
            until=state.chapter_quality >= 0.8,
            max_iterations=3,
            body=[critique_chapter, refine_chapter],
        ),
    ],
)
settled = (
    Workflow("improvement-delta", state=RefinementState)
    .start_with(generate_draft)
    .repeat_until(state.improvement_delta < 0.01, max_iterations=20, body=[iterate, measure_delta])
)
design = (
    Workflow("errors-fixed")
    .start_with(generate_design)
    .repeat_until(~state.errors, max_iterations=3, body=[validate, fix_errors])
)
sql = (
    Workflow("query-runs")
    .start_with(generate_query)
    .repeat_until(~state.sql_error, max_iterations=5, body=[execute, revise_query])
)
code = Workflow("all-tests-passing", state=CodeState).repeat_until(
    state.all_tests_passing, max_iterations=5, body=[generate_code, run_tests, analyze_failures, refine_code]
)


async def main() -> None:
    for workflow in (content, settled, design, sql, book, code):
        result = await refine(workflow, "Tides")
        for line in result.text.splitlines():
            print(f"    {line}")
        print(f"-- {workflow.name}: {result.outcome}, {result.iterations} iterations: {result.reason}")


if __name__ == "__main__":
    asyncio.run(main())
