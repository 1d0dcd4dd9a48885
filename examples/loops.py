"""Four ways for a loop to end: a score is reached, it gets no better, the errors are fixed, the tests pass.

A model writes, judges and mends: that of REDRAFT_MODEL, or else recorded answers. Run it: `python examples/loops.py`
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from model_server import scripted

from redraft.actors import Brief, Workflow, errors, plateau, score, step
from redraft.app import Settings, refine

write = step("llm", role="generator", name="write")
judge = step("llm", role="critic", name="judge")
improve = step("llm", role="refiner", name="improve")

threshold = Workflow("threshold").start_with(write).repeat_until(score >= 0.8, max_iterations=4, body=[judge, improve])
no_better = (
    Workflow("no-better")
    .start_with(write)
    .repeat_until((score >= 0.95) | plateau(gain=0.01, over=2), max_iterations=8, body=[judge, improve])
)
errors_fixed = (
    Workflow("errors-fixed").start_with(write).repeat_until(errors == 0, max_iterations=4, body=[judge, improve])
)
tests_pass = (
    Workflow("tests-pass")
    .start_with(step("source", role="generator"))
    .repeat_until(
        errors == 0,
        max_iterations=4,
        body=[
            step("pytest", role="critic", options={"tests": ["test_leap.py"], "module": "leap"}),
            step("llm", role="refiner", name="mend", options={"prompt": "code"}),
        ],
    )
)

LEAP = "def is_leap(year: int) -> bool:\n    return year % 4 == 0\n"
TESTS = """from leap import is_leap


def test_years():
    assert is_leap(2024)
    assert not is_leap(2023)


def test_centuries():
    assert not is_leap(1900)


def test_fourth_centuries():
    assert is_leap(2000)
"""


async def main(settings: Settings) -> None:
    briefs: list[tuple[Workflow, Brief | str]] = [
        (threshold, "Write a haiku about tides"),
        (no_better, "Write a slogan for tea"),
        (errors_fixed, "Say two things about planets"),
        (tests_pass, Brief(LEAP, "text/x-python", "leap.py")),
    ]
    for workflow, brief in briefs:
        result = await refine(workflow, brief, settings=settings)
        passes = f"{result.iterations} iterations"
        print(f"{result.text.strip()}\n-- {workflow.name}: {result.outcome}, {passes}: {result.reason}\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, scripted("loops") as chosen:
        os.chdir(folder)  # where the worker is started, and where the critic looks for the tests
        Path("test_leap.py").write_text(TESTS)
        asyncio.run(main(chosen))
