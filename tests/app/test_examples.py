"""The examples do what they say."""

from __future__ import annotations

import re
from pathlib import Path
from subprocess import PIPE

import pytest
from tests.app.quick_python import quick_python
from tests.forked import fork
from tests.processes import plain

ROOT = Path(__file__).parents[2]


def run(folder: Path, program: Path) -> str:
    """What the program says on standard output, and nothing on the other."""
    environment = plain(REDRAFT_STORE=f"sqlite:///{folder / 'log.db'}")
    pipes = {"stdout": PIPE, "stderr": PIPE}
    with fork(str(program), folder=folder, python=quick_python(folder), environment=environment, **pipes) as process:
        out, err = process.communicate()
        assert (process.wait(), err) == (0, "")
    return out


LAST = {
    "article.py": "accepted after 3 iterations, score 1.0: the condition holds: score 1.00 >= 0.9",
    "panel.py": "accepted: the condition holds: score 1.00 >= 0.99",
    "choose.py": "swap: accepted in 0 of 1 runs",
    "chapters.py": "a book of 5 chapters, the last of 11 words; 10 refinements; accepted: the condition holds: ",
    "advice.py": "1 x write about: far",
    "exactly_once.py": "20 notes, from event 1 to event 20",
    "report.py": "accepted after 3 iterations: the condition holds: score 8 of 10 >= 8",
    "criteria.py": "accepted: the condition holds: accuracy 9 of 10 >= 8, tone 6 of 10 >= 6",
    "measures.py": "accepted: the condition holds: failing 1 <= 1, change(words) 0.1 <= 0.1",
    "flyte.py": "accepted after 3 iterations: the condition holds: score 8 of 10 >= 8",
    "patches.py": "saved: 5,343 tokens, 97% of what it writes",
    "strategos.py": "-- all-tests-passing: accepted, 4 critiques: the condition holds: all_tests_passing 1 >= 1",
    "follow.py": "event 20: accepted: the condition holds: score 1.00 >= 0.9",
    "strategos_state.py": "-- all-tests-passing: accepted, 3 iterations: the condition holds: state.all_tests_passing",
    "chapters_at_once.py": "accepted: a book of 5 chapters, each refined in a run of its own",
    "lessons.py": "accepted, 1 iterations: Why there are eclipses.",
    "adk_state.py": "-- escalating: accepted, 4 iterations: the condition holds: state.done",
    "patterns.py": "-- stepwise-correction: accepted, 2 iterations: the critic approved the draft",
}
"""What an example says last, of those that have no test of their own."""


@pytest.mark.parametrize("example", LAST)
def test_an_example_runs(tmp_path: Path, example: str):
    said = run(tmp_path, ROOT / "examples" / example).strip()
    assert said.splitlines()[-1].startswith(LAST[example])


def test_what_cannot_be_delivered_from_a_store_in_memory_is_said(tmp_path: Path):
    program = str(ROOT / "examples" / "exactly_once.py")
    with fork(
        program, folder=tmp_path, environment=plain(REDRAFT_STORE="memory:"), stdout=PIPE, stderr=PIPE
    ) as process:
        _, err = process.communicate(timeout=170)
    assert process.returncode == 1
    assert "InputError: store memory: keeps nothing, so no subscription can have a name there" in err


def test_the_four_ways_for_a_loop_to_end(tmp_path: Path):
    said = run(tmp_path, ROOT / "examples" / "loops.py").strip().splitlines()
    ends = [line for line in said if line.startswith("-- ")]
    assert ends == [
        "-- threshold: accepted, 2 iterations: the condition holds: score 0.889 >= 0.8",
        "-- no-better: plateaued, 4 iterations: the best score rose by less than 0.01 over 2 judged drafts",
        "-- errors-fixed: accepted, 3 iterations: the condition holds: errors 0 == 0",
        "-- tests-pass: accepted, 3 iterations: the condition holds: errors 0 == 0",
    ]
    assert said[-1] == ends[-1]


SURE = "score 1.00 >= 0.6, confidence 0.90 >= 0.85"


@pytest.mark.check
def test_the_loops_of_strategos_end_by_quality_change_confidence_and_tests(tmp_path: Path):
    said = run(tmp_path, ROOT / "examples" / "strategos.py").strip().splitlines()
    ends = [line for line in said if line.startswith("-- ")]
    assert ends[:-1] == [
        "-- iterative-refinement: accepted, 4 critiques: the condition holds: score 1.00 >= 0.9",
        "-- improvement-delta: accepted, 4 critiques: the condition holds: change(quality) 0 < 0.01",
        f"-- confidence-threshold: accepted, 4 critiques: the condition holds: {SURE}",
    ]


def test_the_loops_of_strategos_end_by_the_state_of_their_workflows(tmp_path: Path):
    said = run(tmp_path, ROOT / "examples" / "strategos_state.py").strip().splitlines()
    assert [line for line in said if line.startswith("-- ")][:-1] == [
        "-- iterative-refinement: accepted, 4 iterations: the condition holds: state.quality_score 1.0 >= 0.9",
        "-- improvement-delta: accepted, 4 iterations: the condition holds: state.improvement_delta 0.0 < 0.01",
        "-- errors-fixed: accepted, 3 iterations: the condition holds: not state.errors",
        "-- query-runs: accepted, 4 iterations: the condition holds: not state.sql_error",
        "-- book-writing: accepted, 5 iterations: the condition holds: state.chapter_count 5 >= 5",
    ]
    assert "    Chapter 5: The moon pulls at the sea. The sun helps it. Twice a day the water rises." in said
    assert "    select place, max(height) from tide" in said
    assert said[-2] == "        return year % 4 == 0 and year % 100 != 0 or year % 400 == 0"


def test_the_loop_agent_of_adk_ends_by_its_tool_or_by_the_state_of_its_session(tmp_path: Path):
    said = run(tmp_path, ROOT / "examples" / "adk_state.py").strip().splitlines()
    left = "-- refinement-loop: accepted, 3 iterations: the refiner left, and nothing stands against its draft"
    assert said[:2] == ["There was a cat. His name is Tom. Tom wants the moon.", left]
    assert said[2] == said[0]


def test_patterns_mend_a_trace_of_reasoning_a_draft_by_a_plan_and_one_step_alone(tmp_path: Path):
    said = run(tmp_path, ROOT / "examples" / "patterns.py").strip().splitlines()
    assert said[:4] == [
        "He has 24 apples.",
        "-- reflection: accepted, 3 iterations: the condition holds: not state.flaws",
        "Why tides exist: The moon pulls at the sea. Twice a day the water rises. The sun helps it.",
        "-- planned-revision: accepted, 3 iterations: the condition holds: score 1.00 >= 0.9",
    ]
    assert said[4] == "First 17 - 5 = 12. Then 2 * 6 = 12. So 12 + 12 = 24.", "no other step was touched"


def test_the_report_of_flyte_is_written_to_a_file(tmp_path: Path):
    run(tmp_path, ROOT / "examples" / "report.py")
    assert (tmp_path / "report.md").read_text().startswith("# Why it rains\n\nWater rises")


def test_a_critic_that_says_approved_and_a_refiner_with_nothing_to_change_end_the_loop(tmp_path: Path):
    said = run(tmp_path, ROOT / "examples" / "adk.py").strip().splitlines()
    assert said[1] == "-- approved: accepted: the critic approved the draft (score 1.00)"
    assert said[-1] == "-- exit-tool: accepted: the refiner left, and nothing stands against its draft"


def test_the_book_has_five_refined_chapters_as_a_page_and_as_markdown(tmp_path: Path):
    said = run(tmp_path, ROOT / "examples" / "book.py").strip().splitlines()
    assert said[-1].startswith("15 refinements; accepted: the condition holds: outputs 5 >= 5")
    assert sorted(said[:2]) == ["Publish/file: book.md", "Publish/html: book.html"]  # side by side, in either order
    book = (tmp_path / "book.md").read_text()
    assert re.findall(r"^## (\d)\. ", book, re.MULTILINE) == ["1", "2", "3", "4", "5"]
    assert book.count("therefore") == 5
    page = (tmp_path / "book.html").read_text()
    assert page.count("<h2>") == 5
    assert "<title>Tides</title>" in page


def test_every_python_example_is_run_here():
    there = {path.name for path in (ROOT / "examples").glob("*.py") if not path.name.startswith("model_")}
    assert {*LAST, "loops.py", "adk.py", "book.py"} == there
