"""The gate `public-names`: a draft that lacks a name that others may need does not pass."""

from __future__ import annotations

import pytest

from redraft.actors.workflow.context import Context
from redraft.app.builtin.gates.programs import names_critic
from redraft.events.messages.content import Brief, Critique, new_draft

TRIPLE = "+AAoAIgAiACI-"
"""A line end and three quotes, as UTF-7 writes them."""


async def judged(brief: str, draft: str) -> Critique:
    critique = await names_critic(new_draft(2, draft), Brief(brief), Context("run", "gate", 1, 60.0, "key"))
    assert isinstance(critique, Critique)
    return critique


@pytest.mark.parametrize(
    ("brief", "draft", "lost"),
    [
        ("import os\nx = 1\n", "x = 1\n", "os"),
        ("def f(): pass\ndef g(): pass\n", "def f(): pass\n", "g"),
        ('__all__ = ["_f"]\ndef _f(): pass\n', '__all__ = ["_f"]\n', "_f"),
        ("if True:\n    from os import path as p\n", "x = 1\n", "p"),
        ("from os import *\n", "import os\n", "* from os"),
        ("a, (b, *c) = 1, (2, 3)\n", "a, b = 1, 2\n", "c"),
        ("__version__ = 1\n", "x = 1\n", "__version__"),
        ("def f(): pass\n", f"# coding: utf-7\nx = 1 # {TRIPLE}\ndef f(): pass\ny = 1 # {TRIPLE}\n", "f"),
    ],
)
async def test_a_lost_name_is_named(brief: str, draft: str, lost: str) -> None:
    critique = await judged(brief, draft)
    assert (critique.score, critique.errors) == (0.0, (f"the name {lost} is gone",))


@pytest.mark.parametrize(
    ("brief", "draft"),
    [
        ("import os as _os\nx = 1\n", "x = 2\n"),
        ('__all__ = ["x"]\nimport os\nx = 1\n', '__all__ = ["x"]\nx = 1\n'),
        ("def f():\n    import os\n", "def f(): pass\ny = 1\n"),
        ("x = (\n", "y = ()\n"),
    ],
)
async def test_what_nobody_can_need_may_go(brief: str, draft: str) -> None:
    assert (await judged(brief, draft)).score == 1.0


@pytest.mark.parametrize("brief", ["x = 1\n", "x = (\n", "y = (\n"])
async def test_a_draft_that_does_not_compile_does_not_pass_whatever_the_brief(brief: str) -> None:
    critique = await judged(brief, "x = (\n")
    assert critique.score == 0.0
    assert critique.errors[0].startswith("line 1: ")
