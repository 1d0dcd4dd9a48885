"""`redraft whatif --workflow` over runs of several plans says which of them are in no row."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.cli_calls import call, document, one_line

PLANS = """
from redraft.actors import Workflow, critic, generator, refiner

def plan(*criteria):
    @generator
    def write(brief): return "v1"

    @critic(scale=(1, 10), criteria={name: name for name in criteria})
    def judge(draft):
        value = min(10, 2 * draft.version)
        return {"score": value, "criteria": {name: value for name in criteria}}

    @refiner
    def improve(draft): return f"v{draft.version + 1}"

    return Workflow("mixed").start_with(write).repeat_until("score >= 8", max_iterations=6, body=[judge, improve])

first, second, third = plan(), plan("depth"), plan("accuracy", "tone")
"""


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with runs of three plans of one workflow, the last with two criteria."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    (tmp_path / "plans.py").write_text(PLANS)
    for plan in ("first", "second", "third", "third"):
        assert call("run", f"plans.py:{plan}", "Tides", "-q").code == 0


def test_runs_for_whose_plan_a_policy_cannot_be_read_are_counted_and_the_reason_is_told():
    found = document("whatif", "--workflow", "mixed", "--until", "tone >= 6")
    assert [row["runs"] for row in found["rows"]] == [2, 2]
    assert [each["runs"] for each in found["left_out"]] == [2]
    why = "Refinement: until: tone is no criterion or measure that a critic here declares"
    assert found["left_out"][0]["why"].startswith(why)
    last = call("whatif", "--workflow", "mixed", "--until", "tone >= 6").out.splitlines()[-1]
    assert last.startswith(f"2 more runs in no row: {why}")


def test_nothing_is_said_where_all_are_in_the_rows():
    found = document("whatif", "--workflow", "mixed", "--until", "score >= 6")
    assert ([row["runs"] for row in found["rows"]], found["left_out"]) == ([4, 4], [])
    assert "in no row" not in call("whatif", "--workflow", "mixed", "--until", "score >= 6").out


def test_a_misspelled_criterion_gets_the_nearest_of_the_newest_plan():
    result = call("whatif", "--workflow", "mixed", "--until", "acuracy >= 6")
    assert result.code == 2
    assert "did you mean accuracy?" in one_line(result)
