"""What the built-in critics count, and that each counts all that it declares, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.app.builtin.test_pytest import QUICK, TESTS, project, step  # noqa: F401 - a fixture

from redraft.actors import Actor, Context, Critique
from redraft.actors.runtime.working.results import measures_of
from redraft.app.builtin.programs.command import command_critic
from redraft.app.builtin.programs.pytest_critic import pytest_critic
from redraft.app.builtin.programs.ruff import ruff_critic
from redraft.app.builtin.prose.actors import prose_critic
from redraft.events.messages.content import Brief, History, new_draft

MEAN = "def mean(values):\n    if not values:\n        return 0\n    return sum(values) / len(values)\n"
PY = Brief("x = 1\n", source="module.py")


async def counted(actor: Actor, text: str, brief: Brief = PY, **options: Any) -> dict[str, float]:
    """The measures of a critique, which are those that the actor declares for these options."""
    context = Context("r", "judge", 1, 60.0, "key", options)
    values = {"draft": new_draft(1, text), "brief": brief, "context": context, "history": History()}
    said = actor.function(**{name: values[name] for name in actor.takes})
    critique = said if isinstance(said, Critique) else await said
    measures: dict[str, float] = critique.measures
    declared = actor.measures_by(options)
    assert measures_of(measures, declared, declared) == measures
    return measures


async def test_prose_counts_words_findings_and_readability() -> None:
    few = await counted(prose_critic, "The the house stands with with care.\n")
    assert few == {"words": 7, "findings": 2}
    many = await counted(prose_critic, "The cat sat on the mat by the door. " * 20)
    assert many["words"] == 180
    assert many["readability"] > 60
    assert await counted(prose_critic, "```\ncode\n```\n") == {"words": 0, "findings": 0}


async def test_ruff_counts_errors_by_kind() -> None:
    untidy = "def f():\n    import os\n    x = None\n    return x == None\n"
    several = await counted(ruff_critic, untidy, select=["E711", "F", "PL", "ERA"])
    assert several == {"findings": 3, "syntax_errors": 0, "E": 1, "ERA": 0, "F": 1, "PL": 1}
    assert (await counted(ruff_critic, "def f(a, b, c, d, e, g):\n    pass\n", select=["PL"]))["PL"] >= 1
    private = "def f():\n    import os\n    import sys\n"
    assert await counted(ruff_critic, private, select=["F401", "W"]) == {
        "findings": 2, "syntax_errors": 0, "F": 2, "W": 0,
    }  # fmt: skip
    broken = await counted(ruff_critic, "def f(:\n")
    assert broken["syntax_errors"] == broken["findings"] > 0
    assert (broken["E"], broken["F"]) == (0, 0)


async def test_ruff_by_a_configuration_counts_no_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ruff.toml").write_text('[lint]\nselect = ["E"]\n')
    monkeypatch.chdir(tmp_path)
    found = await counted(ruff_critic, "x = None\nx == None\n", config="ruff.toml")
    assert found == {"findings": 1, "syntax_errors": 0}


async def test_a_program_is_counted_by_its_parser() -> None:
    run = ["sh", "-c", "cat >/dev/null; printf 'f:1: bad\\nf:2: worse\\n'; exit 3"]
    assert await counted(command_critic, "x", run=run) == {"exit_code": 3}
    assert await counted(command_critic, "x", run=run, parser="lines") == {"exit_code": 3, "findings": 2}
    last = ["sh", "-c", "cat >/dev/null; echo '1 failed, 4 passed in 0.1s'; exit 1"]
    assert await counted(command_critic, "x", run=last, parser="pytest") == {
        "exit_code": 1, "findings": 1, "tests": 5, "failing": 1, "passing": 4, "all_tests_passing": 0,
    }  # fmt: skip
    broken = ["sh", "-c", "cat >/dev/null; exit 2"]
    assert (await counted(command_critic, "x", run=broken, parser="pytest"))["failing"] == 1
    good = ["sh", "-c", "cat >/dev/null; echo '4 passed in 0.1s'"]
    assert (await counted(command_critic, "x", run=good, parser="pytest"))["all_tests_passing"] == 1


@pytest.mark.check
async def test_pytest_counts_tests(project: Path) -> None:  # noqa: F811
    (project / "test_few.py").write_text(
        "import module\n\ndef test_one():\n    assert module.mean([1, 3]) == 2\n\n"
        "def test_none():\n    assert module.mean([]) == 0\n"
    )
    options = {"tests": ["test_few.py"], "env_pass": ["HOME", QUICK]}
    assert await counted(pytest_critic, MEAN, **options) == {
        "tests": 2, "failing": 0, "passing": 2, "all_tests_passing": 1,
    }  # fmt: skip
    half = MEAN.replace("return 0", "return 1")
    assert await counted(pytest_critic, half, **options) == {
        "tests": 2, "failing": 1, "passing": 1, "all_tests_passing": 0,
    }  # fmt: skip
    ended = "import os\nos._exit(0)\n"
    assert await counted(pytest_critic, ended, **options) == {
        "tests": 1, "failing": 1, "passing": 0, "all_tests_passing": 0,
    }  # fmt: skip
    assert await counted(pytest_critic, half, Brief(MEAN, source="module.py"), kept=True, **options) == {"broken": 1}


@pytest.mark.check
async def test_pytest_measures_the_drafts_coverage(project: Path) -> None:  # noqa: F811
    (project / "test_few.py").write_text(
        "import module, threading\n\ndef test_one():\n    assert module.mean([1, 3]) == 2\n\n"
        "def test_thread():\n    t = threading.Thread(target=module.other)\n    t.start()\n    t.join()\n"
    )
    text = MEAN + "\n\ndef other():\n    return 1\n\n\ndef never():\n    return 2\n"
    found = await counted(pytest_critic, text, env_pass=[QUICK], tests=["test_few.py"], coverage=True)
    assert found["coverage"] == pytest.approx(6 / 8)  # of 8 lines, `return 0` and `return 2` never run
    broken = await counted(pytest_critic, "def f(:\n", env_pass=[QUICK], tests=["test_few.py"], coverage=True)
    assert broken["coverage"] == 0


def test_each_option_changes_what_is_declared() -> None:
    assert pytest_critic.measures_by({}) == ("tests", "failing", "passing", "all_tests_passing")
    assert pytest_critic.measures_by({"coverage": True})[-1] == "coverage"
    assert command_critic.measures_by({"parser": "json"}) == ()
    assert ruff_critic.measures_by({"select": ["ALL"]}) == ("findings", "syntax_errors")
