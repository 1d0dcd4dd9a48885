"""`redraft whatif` on recorded runs, of both stores: one in detail, and many as a table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.app.cli_calls import call, document, one_line
from tests.services import postgres_place

LOUD = """
from redraft.actors import critic, generator, refiner
from redraft.actors.workflow.workflow import Workflow
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Critique

@generator
def write(brief): return brief.text

@critic
def judge(draft): return Critique(min(1, draft.text.count("!") / 10))

@refiner
def improve(draft): return draft.text + "!"

loud = Workflow("loud").start_with(write).repeat_until(score >= 0.5, max_iterations=6, body=[judge, improve])
"""


@pytest.fixture(scope="module", autouse=True, params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A store with two runs: accepted at 0.5 after 6 passes, and exhausted at 0.3 after 3. Nothing here changes it."""
    folder = tmp_path_factory.mktemp("whatif")
    is_sqlite = request.param == "sqlite"
    url = "sqlite:///store.db" if is_sqlite else postgres_place(request.getfixturevalue("postgres_server"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("REDRAFT_STORE", url)
        (folder / "loud.py").write_text(LOUD)
        assert call("run", "loud.py:loud", "Tides", "-q", "--tag", "long").code == 0
        assert call("run", "loud.py:loud", "Moons", "-q", "--max-iterations", "3").code == 3
        yield


def test_one_run_says_where_they_part_and_what_it_would_have_saved():
    out = call("whatif", "last", "--until", "score >= 0.1").out.splitlines()
    assert out[0].endswith("(loud), under the policy: until score >= 0.1")
    assert out[1:3] == ["  recorded: exhausted, score 0.30, 8 steps", "  instead:  accepted, score 0.10, 4 steps"]
    assert out[3] == "  they first differ at event 12, Refinement"
    assert out[4] == "    recorded: refiner improve was asked to improve draft 2, which was scored at 0.10"
    assert out[5].startswith("    instead:  Refinement ended as accepted after 2 iterations: ")
    assert out[6:] == ["  4 steps fewer"]
    found = document("whatif", "last", "--until", "score >= 0.1")
    assert (found["saved"], found["ends_at"], found["parting"]["version"]) == (4, None, 12)
    assert (found["imagined"]["outcome"], found["imagined"]["steps"], found["recorded"]["steps"]) == ("accepted", 4, 8)


def test_one_run_says_where_the_record_ends():
    out = call("whatif", "last", "--max-iterations", "5", "--keep", "last").out.splitlines()
    assert out[0].endswith("under the policy: max_iterations 5, keep last")
    assert "  instead:  no end; score 0.30, 8 steps so far" in out
    assert out[-1] == "  the record ends at Refinement[4]/improve: no answer to that was recorded"
    assert document("whatif", "last", "--max-iterations", "5")["ends_at"] == "Refinement[4]/improve"


def test_one_run_that_would_have_been_the_same():
    assert call("whatif", "last", "--keep", "best").out.splitlines()[-1] == "  both make the same decisions"


def test_several_conditions_are_several_policies():
    found = document("whatif", "last", "--until", "score >= 0.1", "--until", "score >= 0.2")
    assert [each["policy"] for each in found] == ["until score >= 0.1", "until score >= 0.2"]
    assert [each["saved"] for each in found] == [4, 2]


def test_many_runs_are_a_table_with_a_row_for_each_policy():
    rows = document(
        "whatif", "--workflow", "loud", "--since", "1h", "--until", "score >= 0.2", "--until", "score >= 0.9"
    )["rows"]
    left = ("scale", "criteria", "measures", "mean_iterations", "mean_cost")
    assert rows[0]["mean_iterations"] > rows[1]["mean_iterations"]
    assert [{name: value for name, value in row.items() if name not in left} for row in rows] == [
        {"policy": "as recorded", "runs": 2, "ended_early": 0, "mean_steps": 10.0, "mean_score": 0.4, "accepted": 0.5},
        {
            "policy": "until score >= 0.2",
            "runs": 2,
            "ended_early": 0,
            "mean_steps": 6.0,
            "mean_score": 0.2,
            "accepted": 1.0,
        },
        {
            "policy": "until score >= 0.9",
            "runs": 2,
            "ended_early": 1,
            "mean_steps": 8.0,
            "mean_score": 0.3,
            "accepted": 0.0,
        },
    ]
    shown = call("whatif", "--workflow", "loud", "--until", "score >= 0.9").out.splitlines()
    assert shown[0].split() == ["policy", "runs", "iterations", "steps", "score", "accepted", "ended", "early"]
    assert shown[1].split() == ["as", "recorded", "2", "4.5", "10.0", "0.40", "50%", "0"]
    tagged = document("whatif", "--workflow", "loud", "--tag", "long", "--until", "score >= 0.9")["rows"]
    assert [(row["runs"], row["ended_early"], row["mean_steps"]) for row in tagged] == [(1, 0, 12.0), (1, 1, None)]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("last",), 2, "say what should differ"),
        (("--until", "score >= 1"), 2, "name one run, or many with --workflow"),
        (("last", "--workflow", "loud", "--keep", "last"), 2, "not both"),
        (("last", "--tag", "long", "--keep", "last"), 2, "--tag chooses among the runs of a --workflow"),
        (("last", "--until", "scor >= 1"), 2, "--until: condition, column 1"),
        (("last", "--keep", "first"), 2, "--keep is 'first'; write best or last"),
        (("last", "--max-iterations", "0"), 2, "max_iterations is 0"),
        (("last", "--rollback-margin", "2", "--keep", "last"), 2, "rollback_margin is 2"),
        (("last", "--loop", "Chapters", "--keep", "last"), 2, "there is no loop 'Chapters'; it has Refinement"),
        (("--workflow", "loud", "--loop", "Chapters", "--keep", "last"), 2, "there is no loop 'Chapters'"),
        (("--workflow", "none", "--keep", "last"), 2, "no run of the workflow 'none' has ended"),
        (("--workflow", "loud", "--since", "soon", "--keep", "last"), 2, "--since 'soon' is not a time"),
        (("nobody", "--keep", "last"), 4, "no run 'nobody'"),
    ],
)
def test_what_cannot_be_imagined_is_told_in_one_line(arguments: tuple[str, ...], code: int, said: str):
    result = call("whatif", *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in one_line(result)
