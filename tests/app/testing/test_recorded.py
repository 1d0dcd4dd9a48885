"""Workflows run on recorded answers: nobody is asked, and what came of it is as it was."""

from __future__ import annotations

import asyncio
import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.pages import ROOT, blocks
from tests.processes import plain

from redraft.app import (
    Context,
    Criterion,
    Critique,
    Draft,
    InputError,
    PermanentError,
    Revision,
    StepError,
    Usage,
    Workflow,
    criterion,
    critic,
    generator,
    publisher,
    refiner,
    score,
)
from redraft.app.testing import NotRecorded, Story, run_recorded


class Calls:
    """A workflow with paid actors, which note that they were called."""

    def __init__(self, threshold: float = 8) -> None:
        self.made: list[str] = []

        @generator
        def write(brief: object, context: Context) -> str:
            self.made.append("write")
            context.used(Usage(tokens=100, cost=0.01, calls=1, currency="USD", model="fake"))
            return "a draft"

        @critic(scale=(0, 10), criteria={"clear": "says it", "short": Criterion("short", "is short", scale=(1, 5))})
        async def judge(draft: Draft, context: Context) -> dict[str, object]:
            self.made.append("judge")
            if len(self.made) == 2:
                raise StepError("the model was busy")
            context.used(Usage(tokens=10, cost=0.001, calls=1, currency="USD", model="fake"))
            marks = {"clear": 3.3 * draft.version, "short": {"score": 4, "reason": "few words"}}
            return {"score": 3.3 * draft.version, "criteria": marks, "suggestions": ["more"]}

        @refiner
        def improve(draft: Draft, critique: Critique) -> Revision:
            self.made.append("improve")
            return Revision(f"{draft.text} and {critique.suggestions[0]}", ("added",))

        @publisher
        def post(draft: Draft) -> str:
            self.made.append("post")
            return "the shelf"

        loop = Workflow("letter").start_with(write)
        until = (score >= threshold) & (criterion.clear >= threshold)
        self.workflow = loop.repeat_until(until, max_iterations=4, name="Loop", body=[judge, improve]).finally_(post)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Story]:
    path = tmp_path_factory.mktemp("answers") / "answers.json"
    calls = Calls()
    story = asyncio.run(run_recorded(calls.workflow, "a brief", path, record=True))
    assert calls.made == ["write", "judge", "judge", "improve", "judge", "improve", "judge", "post"]
    return path, story


async def test_the_same_comes_of_it_and_nobody_is_asked(recorded: tuple[Path, Story]) -> None:
    path, was = recorded
    calls = Calls()
    story = await run_recorded(calls.workflow, "a brief", path)
    assert calls.made == []
    assert story.result.outcome == was.result.outcome == "accepted"
    assert (story.result.text, story.result.score) == (was.result.text, was.result.score)
    assert story.result.usage == was.result.usage
    assert story.result.usage.cost == pytest.approx(0.013)
    assert [each.critique.criteria for each in story.result.critiques] == [
        each.critique.criteria for each in was.result.critiques
    ]
    assert story.text() == was.text()
    assert "the model was busy" in story.text()


async def test_what_is_asserted_is_said_with_the_history(recorded: tuple[Path, Story]) -> None:
    story = await run_recorded(Calls().workflow, "a brief", recorded[0])
    story.check(max_cost=0.02, max_tokens=200, max_iterations=3, min_score=0.9)
    with pytest.raises(AssertionError) as found:
        story.check(outcome="failed", max_cost=0.001, max_tokens=5, max_iterations=1, min_score=0.999)
    said = str(found.value)
    for part in (
        "ended as accepted, not failed",
        "cost 0.013",
        "130 tokens",
        "3 iterations",
        "below 0.999",
        "publisher",
    ):
        assert part in said


async def test_another_threshold_is_tried_on_the_same_answers(recorded: tuple[Path, Story]) -> None:
    story = await run_recorded(Calls(threshold=6).workflow, "a brief", recorded[0])
    assert (story.result.outcome, story.result.iterations) == ("accepted", 2)
    assert story.result.publications[0].location.startswith("nowhere")


async def test_what_was_never_asked_has_no_answer(recorded: tuple[Path, Story]) -> None:
    with pytest.raises(NotRecorded, match="generator write is recorded for write: what it is asked has changed"):
        await run_recorded(Calls().workflow, "another brief", recorded[0])
    with pytest.raises(NotRecorded, match=r"improve is recorded for Loop\[3\]/improve: it was not asked then"):
        await run_recorded(Calls(threshold=9.95).workflow, "a brief", recorded[0])


async def test_an_actor_may_be_called_all_the_same(recorded: tuple[Path, Story]) -> None:
    calls = Calls()
    await run_recorded(calls.workflow, "a brief", recorded[0], live=["post"])
    assert calls.made == ["post"]


async def test_what_fails_for_good_does_so_again(tmp_path: Path) -> None:
    @critic
    def judge(draft: Draft) -> float:
        raise PermanentError("no key")

    @generator
    def write(brief: object) -> str:
        return "text"

    @refiner
    def improve(draft: Draft) -> str:
        return "never"

    loop = Workflow("w").start_with(write).repeat_until(score >= 1, max_iterations=1, name="L", body=[judge, improve])
    was = await run_recorded(loop, "b", tmp_path / "a.json", record=True)
    now = await run_recorded(loop, "b", tmp_path / "a.json")
    assert (now.result.outcome, now.result.reason) == ("failed", was.result.reason)


async def test_a_file_that_is_broken_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"path": 1}]')
    with pytest.raises(InputError, match=r"a\.json: these are no recorded answers: .* record them again"):
        await run_recorded(Calls().workflow, "b", tmp_path / "a.json")


PROJECT = """
from pathlib import Path
from redraft.app import Workflow, critic, generator, refiner, score

def note(name):
    with Path("called.txt").open("a") as file:
        file.write(name + " ")

@generator
def write(brief):
    note("write")
    return "why the sky is blue"

@critic
def judge(draft):
    note("judge")
    return min(1, draft.version / 2)

@refiner
def improve(draft):
    note("improve")
    return draft.text + ", and more"

letter = Workflow("letter").start_with(write)
letter = letter.repeat_until(score >= 0.9, max_iterations=5, name="Loop", body=[judge, improve])
"""

TESTS = """
from letters import letter

def test_letter(redraft):
    story = redraft.run(letter, "Why is the sky blue?")
    story.check(max_iterations=2)
    redraft.snapshot(story)
"""


def pytest_in(folder: Path, *options: str) -> tuple[int, str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "redraft.app.pytest_plugin",
        "-p",
        "no:cacheprovider",
        *options,
    ]
    environment = plain(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTHONPATH=str(folder))
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.check
def test_the_plugin_records_plays_and_compares(tmp_path: Path) -> None:
    (tmp_path / "letters.py").write_text(PROJECT)
    (tmp_path / "test_letters.py").write_text(TESTS)
    code, said = pytest_in(tmp_path)
    assert code == 1
    assert "no answers are recorded in" in said
    assert pytest_in(tmp_path, "--redraft-record")[0] == 0
    assert (tmp_path / "called.txt").read_text() == "write judge improve judge "
    folder = tmp_path / "recorded" / "test_letters" / "test_letter"
    assert sorted(each.name for each in folder.iterdir()) == ["answers.json", "history.txt"]
    assert "refiner improve made draft 2 from draft 1" in (folder / "history.txt").read_text()
    (tmp_path / "called.txt").unlink()
    assert pytest_in(tmp_path)[0] == 0
    assert not (tmp_path / "called.txt").exists()

    (tmp_path / "letters.py").write_text(PROJECT.replace("score >= 0.9", "score >= 0.5"))
    code, said = pytest_in(tmp_path)
    assert code == 1
    assert re.search(r"^-.*refiner improve made draft 2", said, re.MULTILINE), said
    assert "pytest --redraft-update" in said
    assert pytest_in(tmp_path, "--redraft-update")[0] == 0
    assert pytest_in(tmp_path)[0] == 0
    shutil.rmtree(tmp_path / "recorded")


SEVERAL = """
import pytest
from letters import letter

def test_letter(redraft):
    redraft.run(letter, "in the module")

class TestLetters:
    def test_letter(self, redraft):
        redraft.run(letter, "in a class")

class Testletters:
    def test_letter(self, redraft):
        redraft.run(letter, "in a class of nearly the same name")

@pytest.mark.parametrize("brief", ["a/b", "a b", "a-b", "A b", "a" * 300, "a" * 301])
def test_each(redraft, brief):
    redraft.run(letter, brief)
"""


@pytest.mark.check
def test_each_test_has_a_recording_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "letters.py").write_text(PROJECT)
    (tmp_path / "test_letters.py").write_text(SEVERAL)
    assert pytest_in(tmp_path, "--redraft-record")[0] == 0
    folders = [each.name for each in (tmp_path / "recorded" / "test_letters").iterdir()]
    assert len({each.casefold() for each in folders}) == 9
    assert "test_letter" in folders
    code, said = pytest_in(tmp_path)
    assert code == 0, said


def test_the_plugin_costs_nothing_where_it_is_not_used() -> None:
    program = "import sys, pytest, redraft.app.pytest_plugin; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=plain())
    own = [each for each in done.stdout.split() if each.startswith("redraft.")]
    assert own == ["redraft.app", "redraft.app.pytest_plugin", "redraft.events", "redraft.events.public_names"]


@pytest.mark.check
def test_the_example_of_the_guide_does_what_it_says(tmp_path: Path) -> None:
    notes, test = blocks(ROOT / "docs" / "testing.md", "python")[4:]
    (tmp_path / "notes.py").write_text(notes)
    (tmp_path / "test_notes.py").write_text(test)
    for options in (["--redraft-record"], []):
        code, said = pytest_in(tmp_path, *options)
        assert code == 0, said
    (tmp_path / "notes.py").write_text(notes.replace("brief.text", "brief.text.upper()"))
    assert pytest_in(tmp_path)[0] == 0, "a generator is not asked"
    (tmp_path / "notes.py").write_text(notes.replace("score >= 0.8", "score >= 0.95"))
    assert "no answer of the refiner improve is recorded for Loop[2]/improve" in pytest_in(tmp_path)[1]


def test_the_plugin_is_an_entry_point_of_pytest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module = project["entry-points"]["pytest11"]["redraft"]
    assert importlib.import_module(module).redraft
