"""Ruff, the real one, as critic and refiner of Python text, and the plan `code`."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from redraft.actors.editing.edits import check_only_issues
from redraft.actors.editing.issues import locate_issues
from redraft.actors.formats.yaml_reader import print_plan, read_plan
from redraft.actors.plans.check import check_plan
from redraft.actors.workflow.context import Context
from redraft.app.builtin.plans import code_plan, source
from redraft.app.builtin.programs.ruff import ruff_critic, ruff_refiner, ruff_score
from redraft.app.builtin.support.module_names import bound_names
from redraft.events.errors import PermanentError
from redraft.events.messages.conditions import AnyOf, Compare, Plateau
from redraft.events.messages.content import Brief, Critique, Draft, Revision, new_draft
from redraft.events.messages.plan import Option, Parallel, Plan, Repeat, Step

SAMPLES = Path(__file__).parents[2] / "samples"
UNTIDY = (SAMPLES / "untidy.py").read_text()
BROKEN = (SAMPLES / "broken.py").read_text()
PRIVATE = "__all__ = ['mean']\nimport os as _os, sys as _sys\n" + UNTIDY.partition("import os\n")[2]
PY = Brief("x", source="module.py")

MEAN = "def mean(values):\n    return sum(values) / len(values)\n"


def step(timeout: float, options: dict[str, Option]) -> Context:
    return Context("run-1", "Refinement[1]/critique", 1, timeout, "key", options)


async def ruffed(text: str, brief: Brief = PY, **options: Option) -> Critique:
    critique = await ruff_critic(new_draft(1, text), brief, step(60.0, options))
    assert isinstance(critique, Critique)
    return replace(critique, measures={})  # see test_measures.py


async def fixed(text: str, brief: Brief = PY, **options: Option) -> Revision:
    revision = await ruff_refiner(new_draft(1, text), brief, step(60.0, options))
    assert isinstance(revision, Revision)
    return revision


async def test_tidy_text_scores_1_and_leaves_the_verdict() -> None:
    assert await ruffed(MEAN) == Critique(1.0, approved=None)


async def test_findings_are_errors_with_places_and_suggestions() -> None:
    critique = await ruffed(PRIVATE)

    assert critique.errors[0] == "2:14 F401 `os` imported but unused"
    assert critique.suggestions[0] == "2:14 F401 Remove unused import"
    assert len(critique.errors) == 4
    assert critique.score == ruff_score(4, PRIVATE)


async def test_an_import_that_others_may_use_is_only_a_suggestion() -> None:
    critique = await ruffed(UNTIDY)

    assert not any("F401" in error for error in critique.errors)
    assert (
        "1:8 F401 `sys` imported but unused; kept, since its name or its effect may be needed" in critique.suggestions
    )
    assert critique.score == ruff_score(2, UNTIDY)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("import os, sys\n\nx = 1\n", {"os", "sys"}),
        ("from json import (\n    dumps,\n    loads as _loads,\n)\n\nx = 1\n", {"dumps"}),
        ('import os, sys\n\n__all__ = ["os"]\n', {"os"}),
        ('import os, sys\n\n__all__ = ["os"]\n__all__ += ["x"]\n', {"os", "sys"}),
        ("import os.path\n\n\ndef f():\n    import sys\n", {"os"}),
        ("from os import *\n\nx = 1", {"* from os"}),
        (
            "from _ssl import _DEFAULT_CIPHERS, _OPENSSL_API_VERSION\n\nx = 1\n",
            {"_DEFAULT_CIPHERS", "_OPENSSL_API_VERSION"},
        ),
        ("try:\n    import os\nexcept ImportError:\n    os = None\n", {"os"}),
    ],
)
async def test_only_imports_that_nobody_can_need_are_removed(text: str, left: set[str]) -> None:
    mended = (await fixed(text)).text
    assert bound_names(ast.parse(mended)) - {"x", "f", "__all__"} == left
    assert "_redraft_needs" not in mended
    assert "import sys" not in mended or "sys" in left


async def test_a_syntax_error_scores_0_and_is_placed() -> None:
    critique = await ruffed(BROKEN)

    assert critique.score == 0.0
    assert critique.errors
    assert all(error.split()[1] == "invalid-syntax" for error in critique.errors)
    assert critique.errors[0].startswith("2:")


def test_the_score_falls_with_each_finding_and_less_in_a_long_text() -> None:
    long = "x = 1\n" * 1000

    assert ruff_score(0, long) == 1.0
    assert ruff_score(1, "x = 1\n") == 0.5
    assert ruff_score(100, long) == 0.5
    assert 0 < ruff_score(5000, long) < ruff_score(4999, long) < 0.1
    assert ruff_score(1, long + "\n" * 9000) == ruff_score(1, long)


async def test_ruff_reads_no_configuration_unless_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ruff.toml").write_text('[lint]\nselect = ["D100"]\n')
    monkeypatch.chdir(tmp_path)

    assert (await ruffed(MEAN)).errors == ()
    assert [error.split()[1] for error in (await ruffed(MEAN, config="ruff.toml")).errors] == ["D100"]


async def test_a_configuration_lies_in_the_workers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "secret").write_text("token = 'hunter2'\n")
    (here / "link.toml").symlink_to(tmp_path / "secret")
    monkeypatch.chdir(here)

    for name in (str(tmp_path / "secret"), "../secret", "link.toml"):
        with pytest.raises(PermanentError, match="ruff: option config: ") as refused:
            await ruffed(MEAN, config=name)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ruff.toml", 'extend = "{secret}"\n'),
        ("pyproject.toml", '[tool.ruff]\nextend = "{secret}"\n'),
        ("ruff.toml", '"ex\\u0074end" = "{secret}"\n'),
        ("ruff.toml", "token = [\n"),
    ],
)
async def test_a_configuration_leads_to_no_other_file(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("TOKEN=hunter2\n")
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text.format(secret=tmp_path / "secret"))
    with pytest.raises(PermanentError, match=f"ruff: option config: '{name}'") as refused:
        await ruffed(MEAN, config=name)
    assert "hunter2" not in str(refused.value)


async def test_rules_can_be_chosen() -> None:
    assert [error.split()[1] for error in (await ruffed(PRIVATE, select=["F"], ignore=["F541"])).errors] == ["F401"] * 2


async def test_the_oldest_python_can_be_named() -> None:
    text = "type Number = int | float\n"

    assert (await ruffed(text, target="py310")).score == 0.0
    assert (await ruffed(text, target="py312")).score == 1.0


@pytest.mark.parametrize("actor", ["ruff", "ruff-fix"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"confg": "x"}, "there is no option 'confg'; did you mean 'config'?"),
        ({"config": "nowhere.toml"}, "option config names 'nowhere.toml', and there is no such file"),
        ({"select": ["NOPE"]}, "Unknown rule selector `NOPE`.*; correct the options"),
        ({"select": ["--fix"]}, "; correct the options"),
        ({"select": "F"}, "option select: expected `array`, got `str`"),
        ({"target": "3.12"}, "option target: expected `str` matching"),
    ],
)
async def test_wrong_options_of_ruff_are_refused(actor: str, options: dict[str, Option], said: str) -> None:
    with pytest.raises(PermanentError, match=f"^{actor}: .*{said}") as raised:
        await (ruffed if actor == "ruff" else fixed)(UNTIDY, **options)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


@pytest.mark.check
async def test_a_text_with_endless_findings_scores_0() -> None:
    critique = await ruffed("import os\n" * 60_000)

    assert critique.score == 0.0
    assert critique.errors == ("more findings than ruff can tell in 16,777,216 bytes; is it Python?",)


@pytest.mark.parametrize("name", ["", "-", "../../x.py", "a b.py", "notes.md", "-rf.py", "pyproject.toml", "n.ipynb"])
async def test_any_source_name_will_do(name: str) -> None:
    assert (await ruffed(MEAN, Brief("x", source=name))).score == 1.0


async def test_fixing_applies_safe_fixes_and_says_what_was_done() -> None:
    revision = await fixed(PRIVATE)

    assert "import" not in revision.text
    assert "seen=[]" in revision.text
    assert revision.changes[0] == "fixed 2:14 F401 `os` imported but unused"
    assert not any("B006" in change for change in revision.changes)
    assert (await ruffed(revision.text)).score > (await ruffed(PRIVATE)).score


async def test_an_import_that_may_be_there_for_what_it_does_stays() -> None:
    text = (
        '__all__ = ["main"]\n\nimport os\nimport plug\nimport readline\nfrom . import models as _models\n\nmain = 1\n'
    )

    assert (await fixed(text)).text == text.replace("import os\n", "")
    kept = [each for each in (await ruffed(text)).suggestions if each.endswith("its effect may be needed")]
    assert [each.split()[2] for each in kept] == ["`plug`", "`readline`"]


async def test_an_import_within_a_function_that_may_be_there_for_what_it_does_stays() -> None:
    inert = "def f():\n    import os\n    return 1\n"
    effect = "def g():\n    import plug\n    from . import models\n    return 1\n"

    assert "import" not in (await fixed(inert)).text
    assert (await fixed(effect)).text == effect
    assert effect in (await fixed(inert + "\n\n" + effect)).text
    assert (await ruffed(effect)).errors == ()


async def test_unsafe_fixes_are_applied_when_asked_for() -> None:
    revision = await fixed(UNTIDY, unsafe=True)

    assert "seen=None" in revision.text
    assert (await ruffed(revision.text)).score == 1.0


async def test_formatting_is_for_those_who_ask_for_it() -> None:
    text = "x = { 'a':1 }\n"

    assert await fixed(text) == Revision(text)
    assert await fixed(text, format=True) == Revision('x = {"a": 1}\n', ("ruff format: 1 line added, 1 removed",))


async def test_imports_are_put_in_order_with_formatting_only() -> None:
    text = "import sys\nimport os\n\nprint(os, sys)\n"

    assert (await ruffed(text)).errors == ()
    assert (await fixed(text)).text == text
    assert (await fixed(text, format=True)).text.startswith("import os\nimport sys\n")


async def test_newer_spellings_of_what_works_are_for_those_who_ask_for_them() -> None:
    text = (
        '__all__ = ["b", "a"]\n\nimport io\n\na = b = 1\nwith io.open("a") as f:\n    print("{}".format(f))\n    pass\n'
    )

    assert (await ruffed(text)).score == 1.0
    assert (await fixed(text)).text == text
    assert (await fixed(text, select=["UP020"])).text == text.replace("io.open", "open")


async def test_what_is_tidy_or_broken_comes_back_as_it_was() -> None:
    assert await fixed(MEAN) == Revision(MEAN)
    assert await fixed(BROKEN) == Revision(BROKEN)


async def test_a_text_that_would_be_emptied_comes_back_as_it_was() -> None:
    assert await fixed("import os as _os\n") == Revision("import os as _os\n")


async def test_fixing_twice_changes_nothing_more() -> None:
    once = await fixed(UNTIDY)

    assert await fixed(once.text) == Revision(once.text)


def test_the_source_is_the_first_draft_as_it_is() -> None:
    draft = source(Brief("text \r\n", "text/x-python", "m.py"))

    assert isinstance(draft, Draft)
    assert (draft.text, draft.media_type) == ("text \r\n", "text/x-python")
    assert draft.ref == new_draft(1, "text \r\n").ref


def test_the_plan_without_tests() -> None:
    plan = code_plan(max_iterations=3)

    assert plan.steps[0] == Step("generator", "source", "generate")
    assert plan.steps[2] == Step("publisher", "file", "publish")
    assert plan.steps[1] == Repeat(
        "Refinement",
        AnyOf((Compare("errors", "==", 0.0), Plateau(0.001, 2))),
        3,
        (
            Step("critic", "public-names", "names", gate=True),
            Step("critic", "ruff", "critique"),
            Step("refiner", "ruff-fix", "refine"),
        ),
    )


@pytest.mark.parametrize("plan", [code_plan(), code_plan(["tests"], 1, 0.9, "stdout")])
def test_the_plan_can_be_run_and_written_as_yaml(plan: Plan) -> None:
    assert check_plan(plan) == plan
    assert read_plan(print_plan(plan)) == plan


def test_the_plan_with_tests_judges_by_both() -> None:
    plan = code_plan(["tests"], threshold=0.9, publish="stdout")

    (_, loop, publish) = plan.steps
    assert isinstance(loop, Repeat)
    assert loop.until == AnyOf((Compare("score", ">=", 0.9), Plateau(0.001, 2)))
    names, kept, judging, _ = loop.body
    assert isinstance(names, Step)
    assert isinstance(kept, Step)
    assert (names.gate, kept.gate, kept.options) == (True, True, {"tests": ["tests"], "kept": True})
    assert isinstance(judging, Parallel)
    assert (judging.combine, judging.wait) == ("min", "all")
    assert [(each.actor, each.name) for each in judging.steps] == [("ruff", "critique"), ("pytest", "tests")]
    assert judging.steps[1].options == {"tests": ["tests"]}
    assert isinstance(publish, Step)
    assert publish.actor == "stdout"
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


async def test_findings_have_places_and_the_change_that_mends_them() -> None:
    text = "import os\nimport sys\n\nprint( sys.argv)\nprint(undefined)\nπ = lambda: 0; ß = not 1 in [2]\n"
    said = await ruffed(text, select=["E", "F", "UP"])
    found = locate_issues(said, text, ())
    assert (found.errors, found.suggestions) == (said.errors, said.suggestions)
    assert {text[slice(*issue.span)] == issue.quote for issue in found.issues if issue.span} == {True}
    places = {issue.text.split()[1]: (issue.quote, issue.replacement) for issue in found.issues}
    assert places["F821"] == ("undefined", None)
    assert places["E713"] == ("not 1 in [2]", "1 not in [2]")
    assert places["E731"][0] == "π = lambda: 0"


async def test_what_ruff_fixes_is_where_its_findings_are() -> None:
    text = "import json.tool\nimport sys\n\n\ndef _f():\n    import os\n    return sys\n"
    found = locate_issues(await ruffed(text), text, ())
    after = (await fixed(text)).text
    assert after != text
    check_only_issues(text, after, found.issues)


async def test_a_syntax_error_and_a_finding_at_the_end_of_a_file_need_no_quote() -> None:
    for text, rules in (("def f(:\n", []), ("x = 1", ["W292"])):
        said = await ruffed(text, select=rules)
        assert said.errors
        assert locate_issues(said, text, ()).errors == said.errors
