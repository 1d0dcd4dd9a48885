"""Where workflows come from, and who works in them; each fault is one line that names the place and the remedy."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.roles import critic, refiner
from redraft.app.workflows.actor_registry import SHIPPED, build_actor_registry
from redraft.app.workflows.publish_targets import ActorEnvironment, check_out, publish_to, refuse_folder
from redraft.app.workflows.sources import override, own_actors, read_source
from redraft.events.errors import ActorError, InputError, PlanError
from redraft.events.messages.conditions import score
from redraft.events.messages.plan import Plan, Repeat, Step

ARTICLE = """
from redraft.actors.workflow.roles import critic, generator, refiner
from redraft.actors.workflow.workflow import Workflow, step
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Critique

@generator
def write(brief): return brief.text

@critic
def judge(draft): return Critique(0.5)

@refiner
def improve(draft): return draft.text + "!"

@critic(name="second")
def other(draft): return Critique(0.6)

article = Workflow("article").start_with(write).repeat_until(
    score >= 0.9, max_iterations=2, body=[judge, step("second", role="critic", name="again"), improve]
)
number = 7
"""

YAML = """
name: tides
steps:
  - generate: {actor: source}
  - repeat:
      until: score >= 0.9
      max_iterations: 3
      body:
        - critique: {actor: judge}
        - refine: {actor: command, with: {run: [cat]}}
  - publish: {actor: file}
"""


@pytest.fixture
def article(tmp_path: Path) -> Path:
    path = tmp_path / "article.py"
    path.write_text(ARTICLE)
    return path


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "tides.yaml"
    path.write_text(YAML)
    return path


def environment(folder: Path) -> ActorEnvironment:
    return ActorEnvironment(io.StringIO(), folder)


def refused(name: object, **options: str | list[str]) -> str:
    with pytest.raises(InputError) as caught:
        read_source(str(name), **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["prose", "code"])
def test_shipped_workflows_are_staffed_by_shipped_actors(name: str, tmp_path: Path):
    found = read_source(name)
    assert found.shipped
    assert found.plan.name == name
    assert [node.actor for node in found.plan.steps if isinstance(node, Step)] == ["source", "stdout"]
    actors = build_actor_registry(found.plan, found.actors, environment(tmp_path))
    assert {(actor.role, actor.name) for actor in actors} <= set(SHIPPED)
    assert {actor.role for actor in actors} == {"generator", "critic", "refiner", "publisher"}


def test_every_shipped_seat_is_filled_by_its_actor(tmp_path: Path):
    for role, name in SHIPPED:
        plan = Plan("one", (Step(role, name, "step"),))
        (actor,) = build_actor_registry(plan, (), environment(tmp_path))
        assert (actor.role, actor.name) == (role, name)


def test_tests_are_for_the_workflow_code(tmp_path: Path):
    (tmp_path / "test_a.py").touch()
    plan = read_source("code", tests=[str(tmp_path / "test_a.py")]).plan
    for missing in ("test_b.py", "", "x" * 300):
        assert "there is no such file or folder" in refused("code", tests=[str(tmp_path / missing) if missing else ""])
    assert any(actor.name == "pytest" for actor in build_actor_registry(plan, (), environment(tmp_path)))
    assert "--tests is for --workflow code" in refused("prose", tests=["tests"])


def test_a_python_file_gives_its_workflow_and_all_its_actors(article: Path, tmp_path: Path):
    found = read_source(f"{article}:article")
    assert not found.shipped
    names = {actor.name for actor in build_actor_registry(found.plan, found.actors, environment(tmp_path))}
    assert names == {"write", "judge", "second", "improve"}


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("artcle", "there is no 'artcle' in it; did you mean 'article'?"),
        ("xyz", "there is no 'xyz' in it; choose from article"),
        ("judge", "judge is the critic judge, not a Workflow; choose from article"),
        ("number", "number is of type int, not a Workflow"),
    ],
)
def test_a_name_that_is_no_workflow(article: Path, variable: str, said: str):
    message = refused(f"{article}:{variable}")
    assert message.startswith(f"{article}: ")
    assert said in message


def test_a_file_without_a_name_or_without_a_workflow(article: Path, tmp_path: Path):
    assert f"Write {article}:name" in refused(article)
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    assert "there is no workflow in it; write article = Workflow('article')" in refused(f"{empty}:article")


@pytest.mark.parametrize("name", ["nowhere.py:article", "nowhere.yaml", "folder/"])
def test_what_is_not_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert "there is no" in refused(name)


def test_an_unknown_workflow_gets_the_nearest_and_the_forms():
    message = refused("prsoe")
    assert message.endswith("did you mean 'prose'? Otherwise give file.py:name or plan.yaml")


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("import redraft\n\nimport no_such_module_anywhere\n", 3, "ModuleNotFoundError: No module named"),
        ("def broken(:\n    pass\n", 1, "this is not Python"),
        ("x = 1\n\ndef f():\n    return {}['tide']\n\nf()\n", 4, "KeyError: 'tide'"),
        ("import sys\nsys.exit(3)\n", 2, "it ends the program when it is loaded"),
        (
            "from redraft.actors.workflow.roles import critic\n@critic\ndef judge(text): ...\n",
            2,
            "@critic judge: there is no argument 'text'; write def judge(draft, brief, context)",
        ),
        (
            "from redraft.actors.workflow.workflow import Workflow\nw = Workflow('two words')\n",
            2,
            "two words",
        ),
    ],
)
def test_a_file_that_fails_is_told_with_its_line(tmp_path: Path, source: str, line: int, said: str):
    path = tmp_path / "broken.py"
    path.write_text(source)
    message = refused(f"{path}:article")
    assert message.startswith(f"{path}, line {line}: ")
    assert said in message


def test_a_fault_in_a_file_beside_it_names_that_file(tmp_path: Path):
    (tmp_path / "redraft_test_sibling.py").write_text("\n1 / 0\n")
    path = tmp_path / "main.py"
    path.write_text("import redraft_test_sibling\n")
    assert f"{tmp_path / 'redraft_test_sibling.py'}, line 2: ZeroDivisionError" in refused(f"{path}:article")


def test_a_plan_in_yaml_with_actors_from_a_file(plan_file: Path, article: Path, tmp_path: Path):
    found = read_source(str(plan_file), actors=str(article))
    actors = build_actor_registry(found.plan, found.actors, environment(tmp_path))
    assert [(actor.role, actor.name) for actor in actors] == [
        ("generator", "source"),
        ("critic", "judge"),
        ("refiner", "command"),
        ("publisher", "file"),
    ]


def test_a_critic_in_the_place_of_a_condition_is_told_before_anything_begins(tmp_path: Path):
    path = tmp_path / "c.py"
    path.write_text(
        "from redraft.actors import condition, critic, generator, step\n"
        "@generator\ndef write(brief): ...\n"
        "@critic\ndef judge(draft): ...\n"
        "@condition\ndef good(facts): ...\n"
        "@step\ndef research(): ...\n"
    )
    plan = tmp_path / "c.yaml"
    body = "name: c\nsteps:\n  - step: {actor: research}\n  - generate: {actor: write}\n  - condition: {actor: %s}\n"
    plan.write_text(body % "good")
    found = read_source(str(plan), actors=str(path))
    actors = build_actor_registry(found.plan, found.actors, environment(tmp_path))
    assert [(each.role, each.name) for each in actors] == [
        ("step", "research"),
        ("generator", "write"),
        ("critic", "good"),
    ]
    plan.write_text(body % "judge")
    found = read_source(str(plan), actors=str(path))
    with pytest.raises(ActorError, match="judge: judge is a critic and no condition; decorate it with @condition, or"):
        build_actor_registry(found.plan, found.actors, environment(tmp_path))
    plan.write_text((body % "good").replace("research", "judge"))
    found = read_source(str(plan), actors=str(path))
    with pytest.raises(ActorError, match="judge is a critic, and the plan wants a step of this name"):
        build_actor_registry(found.plan, found.actors, environment(tmp_path))


def test_a_plan_with_a_typo_names_its_line(plan_file: Path):
    plan_file.write_text(YAML.replace("max_iterations", "max_iteration"))
    message = refused(plan_file)
    assert message.startswith(f"{plan_file}:7")
    assert "max_iteration" in message


def test_a_plan_that_is_not_utf_8(plan_file: Path):
    plan_file.write_bytes(b"name: \xff\n")
    assert "byte 6 is not UTF-8" in refused(plan_file)


def test_an_actor_that_nobody_provides_is_named_with_its_step(plan_file: Path, tmp_path: Path):
    plan = read_source(str(plan_file)).plan
    with pytest.raises(InputError) as caught:
        build_actor_registry(plan, (), environment(tmp_path))
    assert str(caught.value).startswith("Refinement/judge: there is no critic 'judge'; ")
    assert "--actors file.py" in str(caught.value)


def test_an_actor_in_another_role_is_told(tmp_path: Path):
    @refiner
    def judge(draft: object) -> str:
        return ""

    with pytest.raises(InputError, match="judge is a refiner, and the plan wants a critic of this name"):
        build_actor_registry(Plan("p", (Step("critic", "judge", "judge"),)), [judge], environment(tmp_path))


def test_own_actors_come_before_shipped_ones_and_must_be_one(tmp_path: Path):
    def made() -> Actor:
        @critic(name="prose")
        def mine(draft: object) -> None: ...

        return mine

    mine = made()
    plan = Plan("p", (Step("critic", "prose", "judge"),))
    assert build_actor_registry(plan, [mine, mine], environment(tmp_path)) == (mine,)
    with pytest.raises(InputError, match="two different critics are named 'prose'"):
        build_actor_registry(plan, [mine, made()], environment(tmp_path))


def test_a_file_of_actors_without_an_actor(tmp_path: Path):
    path = tmp_path / "none.py"
    path.write_text("")
    with pytest.raises(InputError, match="there is no actor in it"):
        own_actors(str(path))


def test_the_outermost_loop_can_be_given_other_limits(plan_file: Path):
    plan = override(read_source(str(plan_file)).plan, "score >= 0.5", 7)
    loop = plan.steps[1]
    assert isinstance(loop, Repeat)
    assert (loop.until, loop.max_iterations) == (score >= 0.5, 7)
    assert override(plan) is plan


@pytest.mark.parametrize(
    ("until", "most", "said"),
    [
        ("score > = 1", None, "--until: condition, column"),
        ("scor >= 1", None, "--until: condition, column 1"),
        ("", 0, "Refinement: max_iterations is 0"),
        ("", -3, "Refinement: max_iterations is -3"),
    ],
)
def test_wrong_limits_are_refused(plan_file: Path, until: str, most: int | None, said: str):
    plan = read_source(str(plan_file)).plan
    with pytest.raises(InputError) as caught:
        override(plan, until, most)
    assert said in str(caught.value)


def test_a_plan_without_one_outermost_loop_keeps_its_limits():
    plan = Plan("flat", (Step("generator", "source", "generate"), Step("publisher", "stdout", "publish")))
    with pytest.raises(PlanError, match="need one outermost loop, and it has none"):
        override(plan, "score >= 1")


def test_out_is_put_into_the_plan_and_nobody_else_may(tmp_path: Path):
    plan = publish_to(read_source("prose", publish="file").plan, check_out(tmp_path / "out.md"))
    step = plan.steps[-1]
    assert isinstance(step, Step)
    assert step.options == {"path": "out.md", "folder": str(tmp_path)}
    with pytest.raises(PlanError, match=r"publish: with\.folder is for --out alone"):
        refuse_folder(plan, ())


def test_out_needs_a_step_that_writes_a_file(tmp_path: Path):
    with pytest.raises(PlanError, match=r"publish: \{actor: file\}"):
        publish_to(read_source("prose").plan, tmp_path / "out.md")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing/out.md", "there is no folder"),
        (".", "this is not a plain file"),
        ("link.md", "this is not a plain file"),
        ("{day}.md", "in braces there may only be"),
    ],
)
def test_an_output_that_cannot_be_written_is_told_before_any_work(tmp_path: Path, name: str, said: str):
    (tmp_path / "link.md").symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(InputError, match=said):
        check_out(tmp_path / name)
