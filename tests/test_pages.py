"""README and docs do what they say: what they tell their readers to do is done, and their links lead somewhere."""

from __future__ import annotations

import ast
import asyncio
import re
import subprocess
import sys
import tomllib
import typing
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.app.cli_calls import call
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq
from tests.pages import PAGES, ROOT, fences, walk
from tests.processes import plain

from redraft import actors, app, events, projections
from redraft.actors import read_plan
from redraft.app import testing
from redraft.events.bus.port import INBOX, work_queue

DOCS = ROOT / "docs"
ACTORS = (("generator", "write"), ("critic", "judge"), ("refiner", "improve"), ("publisher", "save"))


PUBLIC = {
    "actors": actors.__all__,
    "app": app.__all__,
    "app.testing": [name for name in testing.__all__ if name not in ("History", "Setting", "history", "shortest")],
    "events": events.__all__,
    "projections": projections.__all__,
}
"""The names of the API reference: all that are public, but for those that Redraft's own simulation is made with."""

LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$|^(?: {4}.*\n)+|`[^`\n]+`", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?<!--namespace)(?:^|[\s`$])redraft (?!checkpoint\b)((?:[a-z][a-z-]*)(?: [^|;#`\n]*)?)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    for path, anchor in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: there is no {path}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {path} has no #{anchor}"


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\s-]", "", title.lower()).strip().replace(" ", "-") for title in titles)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_quoted_exist(page: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    for quoted in CODE.findall(page.read_text(encoding="utf-8")):
        for command in COMMAND.findall(quoted):
            verb, *words = command.split()
            sub = words[:1] if words and words[0].isalpha() and words[0].islower() else []
            known = usage(verb, *sub)
            assert known, f"{page.name}: redraft {command}"
            for option in [word.split("=")[0] for word in words if re.fullmatch(r"--[a-z-]+(=.*)?", word)]:
                assert option in known, f"{page.name}: redraft {command}: {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_that_is_quoted_can_be_read(page: Path):
    """Python compiles and imports what there is, a plan is one, and settings are TOML."""
    for fence in fences(page):
        match fence.language:
            case "python":
                tree = compile(fence.text, f"{page}:{fence.line}", "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT | PyCF_ONLY_AST)
                for node in ast.walk(tree):
                    if isinstance(node, ast.ImportFrom) and str(node.module).startswith("redraft"):
                        exec(ast.unparse(node), {})  # noqa: S102 - the page's own imports
            case "yaml" if fence.text.startswith("name:"):
                read_plan(fence.text, f"{page.name}:{fence.line}")
            case "toml":
                tomllib.loads(fence.text)
            case _:
                pass


@cache
def usage(*words: str) -> str:
    """What `--help` says of a verb; nothing where there is no such verb."""
    said = call(*words, "--help")
    return said.out if said.code == 0 else ""


@pytest.mark.check
def test_the_site_has_every_page_and_every_public_name(tmp_path: Path):
    """With warnings of mkdocs as errors: links, anchors, pages that the navigation leaves out."""
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        build, cwd=ROOT, env=plain(PYTHONWARNINGS="ignore"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for package in ("actors", "app", "app.testing", "events", "projections"):
        page = (tmp_path / "reference" / f"{package.rpartition('.')[2]}.html").read_text(encoding="utf-8")
        listed = set(re.findall(r'<h\d id="redraft\.(?:\w+\.)*(\w+)"', page))
        missing = {name for name in PUBLIC[package] if not name.startswith("_")} - listed
        assert not missing, f"{package}: {missing}"
        assert not [name for name in listed if name.startswith("_")]
    lines = (tmp_path / "reference" / "error-lines.html").read_text(encoding="utf-8")
    assert lines.count("<tr>") > 300


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """The environment of a reader who has a store of their own, and a pytest without plugins."""
    own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "REDRAFT_LOG_FORMAT": "text"}
    return plain(REDRAFT_STORE=f"sqlite:///{tmp_path / 'store.db'}", **own)


@pytest.fixture
def prefix() -> Iterator[str]:
    """The prefix of names on the broker, which are gone afterwards."""
    require_rabbitmq()
    name = new_prefix()
    yield name
    asyncio.run(clear(URL, name, [INBOX, *(work_queue(*actor) for actor in ACTORS)]))


@pytest.mark.check
@pytest.mark.parametrize("page", ["README.md", "docs/writing-an-actor.md"])
def test_a_page_does_what_it_says(tmp_path: Path, settings: dict[str, str], page: str):
    walk(ROOT / page, tmp_path, settings, {})


@pytest.mark.check
def test_the_tutorial_is_walked_through(tmp_path: Path, settings: dict[str, str], prefix: str, postgres_url: str):
    places = {
        "amqp://guest:guest@localhost:5672/": URL,
        "postgresql://postgres:secret@localhost/postgres": postgres_url,
    }
    walk(DOCS / "tutorial.md", tmp_path, settings | {"REDRAFT_BROKER_PREFIX": prefix}, places)


@pytest.mark.parametrize("name", ["Brief", "Context", "Critique", "Draft", "History", "Receipt", "Revision", "Usage"])
def test_writing_an_actor_has_every_field(name: str):
    page = (DOCS / "writing-an-actor.md").read_text(encoding="utf-8")
    given = typing.get_type_hints(getattr(app, name))
    missing = [each for each in given if each not in ("meters", "on_usage") and f"`{each}`" not in page]
    assert not missing, f"{name}: {missing}"
