"""The tree of `show` says what critics said beside their scores."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.cli_calls import call, said

VETOED = """
from redraft.actors import Critique, Workflow, critic, generator

@generator
def write(brief):
    return brief.text

@critic
def against(draft):
    return Critique(0.5, approved=False)

@critic
def satisfied(draft):
    return Critique(0.75, approved=True)

@critic
def silent(draft):
    return Critique(0.25)

vetoed = Workflow("vetoed").start_with(write).then(against, satisfied, silent)
"""


@pytest.fixture
def vetoed(home: Path) -> None:
    (home / "vetoed.py").write_text(VETOED)
    call("run", "vetoed.py:vetoed", "Tides", "--quiet")


@pytest.mark.usefixtures("vetoed")
def test_a_veto_is_marked_as_in_the_lines_of_progress() -> None:
    shown = said("show", "last")
    assert "score 0.50, draft 1, did not approve it" in shown
    assert "score 0.75, draft 1, approved it" in shown
    assert "approve" not in next(line for line in shown.splitlines() if "silent" in line)
    said("audit", "last", "--export", "last.html")
    assert "critic against \u00b7 did not approve it" in Path("last.html").read_text()
