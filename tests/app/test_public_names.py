"""`from redraft.app import ...` gives all usual names, to programs and type checkers, and costs nothing until then."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import version
from inspect import getmembers, isclass
from pathlib import Path

import pytest
from mypy import api
from tests.processes import plain

import redraft.actors
import redraft.app
from redraft.actors import Actor
from redraft.app.workflows.actor_registry import SHIPPED
from redraft.events import errors
from redraft.events.messages.event_names import EVENT_NAMES

ROOT = Path(__file__).parents[2]
PUBLIC = set(redraft.app.__all__)


def for_type_checkers() -> dict[str, str]:
    """The names that a type checker sees, each with its module."""
    tree = ast.parse(Path(str(redraft.app.__file__)).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    found = {
        name: str(node.module)
        for node in imports
        for each in node.names
        for name in (redraft.actors.__all__ if (node.module, each.name) == ("redraft.actors", "*") else [each.name])
    }
    return found | {"__version__": "importlib.metadata"}


def test_every_name_is_there_and_is_what_a_type_checker_sees() -> None:
    seen = for_type_checkers()
    assert set(seen) == PUBLIC
    for name, module in seen.items():
        if name != "__version__":
            assert getattr(redraft.app, name) is getattr(sys.modules[module], name)
    assert set(dir(redraft.app)) >= PUBLIC


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'redraft\.app' has no attribute 'nothing'"):
        redraft.app.nothing  # noqa: B018


def test_all_that_programs_use_is_among_them() -> None:
    assert set(redraft.actors.__all__) <= PUBLIC
    assert {kind.__name__ for kind in EVENT_NAMES} <= PUBLIC
    assert len(EVENT_NAMES) == 30
    assert {name for name, each in getmembers(errors, isclass) if issubclass(each, errors.RedraftError)} <= PUBLIC
    assert {"EventFilter", "Recorded", "run_worker", "run_coordinator", "refine", "open_client"} <= PUBLIC
    assert redraft.app.__version__ == version("redraft")


def test_the_built_in_actors_are_among_them() -> None:
    public = {id(getattr(redraft.app, name)) for name in PUBLIC}
    names = {name for name in PUBLIC if isinstance(getattr(redraft.app, name), Actor)}
    shipped = {getattr(redraft.app, name).name for name in names}
    made = {"file", "stdout", "git", "html", "pdf", "webhook", "llm", "verify"}
    assert {name for _, name in SHIPPED} == shipped | made
    assert len(public) >= len(names) > 10
    makers = {f"{name}_publisher" for name in made - {"llm", "verify"}}
    assert makers | {"llm_generator", "llm_critic", "llm_refiner", "verify_critic"} <= PUBLIC


def test_what_the_docs_import_from_inside_is_public_too() -> None:
    texts = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    inside = re.compile(r"^from redraft\.events\.messages\.domain_events import (\w+)", re.MULTILINE)
    used = {name for path in texts for name in inside.findall(path.read_text(encoding="utf-8"))}
    assert used <= PUBLIC


def test_importing_the_package_imports_nothing_else() -> None:
    program = "import sys, redraft.app; print(*sorted(each for each in sys.modules if each.startswith('redraft')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=plain())
    assert done.stdout.split() == ["redraft", "redraft.app", "redraft.events", "redraft.events.public_names"]


TYPED = """
from redraft.app import Critic, Critique, Draft, Generator, Publisher, Refiner, critic, generator, publisher, refiner

@critic
def judge(draft: Draft) -> Critique:
    return Critique(1.0)

@critic(name="other", scale=(1, 10), fields={"improvements": "suggestions"})
def other(draft: Draft) -> dict[str, object]:
    return {"score": 7, "improvements": "more"}

@generator
def write() -> str:
    return "text"

@refiner(name="improve")
def improve(draft: Draft) -> str:
    return draft.text

@publisher
def save(draft: Draft) -> None:
    print(draft.text)

def panel(*critics: Critic) -> None: ...
def parts(first: Generator, then: Refiner, last: Publisher) -> None: ...

panel(judge, other)
parts(write, improve, save)
panel(write)
"""


@pytest.mark.check
def test_a_decorated_critic_is_a_critic_to_type_checkers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "typed.py").write_text(TYPED)
    monkeypatch.chdir(ROOT)
    settings = ("--config-file", "pyproject.toml", "--follow-imports", "silent", "--hide-error-context")
    said, trouble, code = api.run([*settings, "--cache-dir", str(tmp_path / "cache"), str(tmp_path / "typed.py")])
    assert trouble == ""
    lines = [line.partition("typed.py:")[2] for line in said.splitlines() if "error:" in line]
    last = TYPED.count("\n")
    wrong = 'Argument 1 to "panel" has incompatible type "Actor[Literal[\'generator\']]"'
    assert len(lines) == 1, said
    assert lines[0].startswith(f"{last}: error: {wrong}")
    assert code == 1
