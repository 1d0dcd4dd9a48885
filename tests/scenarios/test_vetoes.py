"""A veto, seen from outside: `refine`, `redraft run`, and what is told when people overrule it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.app.cli_calls import call, start, until

from redraft.actors import Critique, Workflow, critic, generator, parallel, publisher, refiner, score
from redraft.app import refine
from redraft.app.settings.settings import Settings
from redraft.events.errors import PermanentError
from redraft.events.messages.plan import Combine

PEOPLE = """
from redraft.actors import Critique, Workflow, approve, critic, generator, publisher
@generator
def write(brief): return brief.text
@critic
def safety(draft): return Critique(0.9, approved=False, errors=("it deletes",))
@critic
def judge(draft): return 1.0
@publisher
def save(draft): return "out"
asked = Workflow("asked").start_with(write).then(safety, approve("editor")).finally_(save)
early = Workflow("early").start_with(write).then(judge, approve("editor"), safety).finally_(save)
alone = Workflow("alone").start_with(write).then(safety).finally_(save)
"""


@generator
def write(brief):
    return brief.text


@critic
def safety(draft):
    return Critique(1.0, approved=False) if "delete" in draft.text else Critique(0.5)


@critic
def judge(draft):
    return Critique(min(1.0, len(draft.text) / 20))


@publisher
def save(draft):
    PUBLISHED.append(draft.text)
    return "out"


PUBLISHED: list[str] = []
MEMORY = Settings(store="memory:")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PUBLISHED.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    (tmp_path / "people.py").write_text(PEOPLE)


async def test_a_veto_outside_a_loop_is_not_published() -> None:
    straight = Workflow("straight").start_with(write).then(safety).finally_(save)
    result = await refine(straight, "delete it", settings=MEMORY)
    assert (result.outcome, result.reason, PUBLISHED) == ("rejected", "critic safety vetoed draft 1", [])


@pytest.mark.parametrize("combine", ["min", "median", "mean", "veto"])
async def test_a_veto_in_a_panel_keeps_the_draft_back_and_the_best_other_one_leaves(combine: Combine) -> None:
    @refiner
    def worse(draft):
        return draft.text + " and delete it"

    panel = parallel("panel", judge, safety, combine=combine)
    loop = Workflow("w").start_with(write).repeat_until(score >= 0.99, max_iterations=2, body=[panel, worse])
    result = await refine(loop.finally_(save), "a text", settings=MEMORY)
    assert (result.outcome, PUBLISHED) == ("exhausted", ["a text"])


async def test_a_run_whose_step_failed_ends_failed_and_publishes_the_best_draft_without_a_veto() -> None:
    @refiner
    def worse(draft):
        if "delete" in draft.text:
            raise PermanentError("no")
        return draft.text + " and delete it"

    loop = Workflow("w").start_with(write).repeat_until(score >= 0.99, max_iterations=5, body=[judge, safety, worse])
    failing = loop.finally_(save).on_failure("publish_best")
    result = await refine(failing, "a text", settings=MEMORY)
    assert (result.outcome, PUBLISHED) == ("failed", ["a text"])


def test_run_ends_rejected_and_says_why() -> None:
    said = call("run", "people.py:alone", "Tides", "--json", "-q")
    end = json.loads(said.out)
    assert (said.code, end["outcome"], end["reason"]) == (3, "rejected", "critic safety vetoed draft 1")


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ("asked", "overrules the veto of critic safety"),
        ("early", "vetoes what people had approved: their word overrules it"),
    ],
)
def test_that_people_overruled_a_veto_is_recorded_and_told(tmp_path: Path, plan: str, told: str) -> None:
    def waits() -> bool:
        shown = call("show", "last", "--json")
        return shown.code == 0 and "draft 1 waits" in json.loads(shown.out)["waiting"]

    with start("run", f"people.py:{plan}", "Tides", "--json", folder=tmp_path) as process:
        until(lambda: (tmp_path / "store.db").exists() and waits())
        assert call("approve", "last", "--by", "ann").code == 0
        assert process.wait(30) == 0
    assert told in call("audit", "last").out
    assert told in " ".join(call("show", "last").out.split())
    assert call("audit", "last", "--export", "page.html").code == 0
    assert told in Path("page.html").read_text()
