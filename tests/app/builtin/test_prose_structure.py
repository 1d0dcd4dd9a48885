"""The gate of `prose`: a draft whose structure is not that of the brief does not pass, whatever the critic says."""

from __future__ import annotations

import pytest

from redraft.actors.workflow.context import Context
from redraft.app.builtin.prose.structure import find_differences, structure_critic
from redraft.events.messages.content import Brief, Critique, new_draft

BRIEF = """# Setting up teh tool

See [the page](a.md) and https://example.org/x, run `make teh` with 4 jobs. We asked Ann Smith of it.

| teh | b |
| --- | --- |
| c | d |

    teh code
"""


@pytest.mark.parametrize(
    ("part", "before", "after"),
    [
        ("headings", "# Setting up teh", "# Setting up the"),
        ("headings", "# Setting", "## Setting"),
        ("links", "(a.md)", "(b.md)"),
        ("addresses", "example.org/x", "example.org/y"),
        ("code", "make teh", "make the"),
        ("code", "    teh code", "    the code"),
        ("numbers", "4 jobs", "5 jobs"),
        ("names", "Ann Smith", "Ann Smyth"),
        ("tables", "| teh |", "| the |"),
    ],
)
def test_a_change_of_structure_is_held_back_and_named(part: str, before: str, after: str) -> None:
    draft = BRIEF.replace(before, after)
    assert draft != BRIEF
    critique = structure_critic(new_draft(2, draft), Brief(BRIEF), Context("run", "gate", 1, 60.0, "key"))
    assert isinstance(critique, Critique)
    assert critique.score == 0.0
    assert critique.errors[0].startswith(f"{part}: ")


def test_words_of_sentences_and_headings_whose_anchors_are_kept_may_change() -> None:
    draft = BRIEF.replace("# Setting up teh tool", '# <a id="setting-up-teh-tool"></a>Setting up the tool')
    assert find_differences(BRIEF, draft.replace("We asked", "We had asked")) == []
