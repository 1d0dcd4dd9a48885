"""Puts the README into the site as its first page, and files beside `docs` that pages link to as pages of source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from griffe import Alias, Extension, Module
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
OUTSIDE: Final = re.compile(r"\]\(\.\./([\w./-]+)\)")
"""A link of a page to something beside `docs`."""

_LANGUAGES: Final = {
    ".py": "python",
    ".mjs": "javascript",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".sh": "sh",
}

_LINES_ARE: Final = (
    "Every line that an error of Redraft can say, by the part that says it; `…` stands for what is filled in. "
    "[Troubleshooting](../troubleshooting.md) says more about those that are met most."
)
_FOR_PEOPLE: Final = frozenset(
    [
        "InputError",
        "PlanError",
        "ConditionError",
        "ContentError",
        "ActorError",
        "StoreError",
        "IncompatibleStore",
        "EncryptionKeyMissing",
        "Tampered",
        "BusError",
        "BusUnusable",
        "NotAllowed",
        "MessageTooLarge",
        "PermanentError",
        "StepError",
        "DeliveryError",
    ]
)
_PARTS: Final = {
    "Source, workflow, options": ["app/redraft/app/workflows", "app/redraft/app/cli", "app/redraft/app/runs"],
    "Actors and plans": ["actors/redraft/actors"],
    "Ready-made actors": ["app/redraft/app/builtin", "app/redraft/app/isolation", "app/redraft/app/models"],
    "Settings, programs": [
        f"app/redraft/app/{each}" for each in ("settings", "wiring", "client", "process", "rehearsal")
    ],
    "Stores, encryption": [f"events/redraft/events/{each}" for each in ("store", "sqlite", "postgres", "encryption")],
    "RabbitMQ and the bus": ["events/redraft/events/rabbit", "events/redraft/events/bus"],
    "Content and filters": ["events/redraft/events/messages", "events/redraft/events/subscriptions"],
    "Read models": ["projections/redraft/projections"],
    "The record": ["app/redraft/app/record"],
    "Subscriptions and webhooks": ["app/redraft/app/subscribing", "app/redraft/app/webhooks"],
}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the README and every file that a page links to outside of `docs`."""
    written = "\n".join(file.content_string for file in files.documentation_pages())
    for path in sorted({*OUTSIDE.findall(written), "CHANGELOG.md", "examples/article.py"}):
        files.append(File.generated(config, f"source/{path}.md", content=_page(ROOT / path)))
    files.append(File.generated(config, "reference/error-lines.md", content=_error_lines()))
    files.append(File.generated(config, "index.md", content=_home((ROOT / "README.md").read_text(encoding="utf-8"))))
    return files


def _error_lines() -> str:
    """A page with every line that is raised for people to mend, by the part that says it."""
    tables = [f"## {part}\n\n{_table(folders)}" for part, folders in _PARTS.items()]
    return f"# Error lines\n\n{_LINES_ARE}\n\n" + "\n\n".join(tables) + "\n"


def _table(folders: Iterable[str]) -> str:
    files = [file for folder in folders for file in sorted(ROOT.glob(f"{folder}/**/*.py"))]
    lines = dict.fromkeys(line for file in files for line in _raised(ast.parse(file.read_text(encoding="utf-8"))))
    rows = ["| line | what to do |", "|---|---|"]
    for fault, _, remedy in (line.rpartition("; ") for line in lines):
        rows.append(f"| {_shown(fault or remedy)} | {_shown(remedy) if fault else ''} |")
    return "\n".join(rows)


def _shown(text: str) -> str:
    """A text of the code as HTML in a table of Markdown, which takes none of it for markup."""
    return re.sub(r"[|{}`*_<>&\[\]\\]", lambda sign: f"&#{ord(sign[0])};", text)


def _raised(tree: ast.AST) -> Iterator[str]:
    """The texts of errors for people; what is filled in is `…`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and _name(node.exc.func) in _FOR_PEOPLE:
            said = ": ".join(filter(None, map(_text, node.exc.args)))
            if len(said.replace("…", "").strip(" :;")) > 10:  # else all of it is filled in
                yield said


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in parts)
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
        case _:
            return "…"


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Points links of a page of `docs` to things beside it at their pages of source."""
    return markdown if "/" in page.file.src_uri else OUTSIDE.sub(r"](source/\1.md)", markdown)


def _home(readme: str) -> str:
    """The README, whose links are those of a page of `docs`."""
    readme = re.sub(r"\]\((?:\./)?docs/", "](", readme)
    return re.sub(r"\]\((?![a-z]+:|#)(?!\.\./)([\w./-]+)\)", _link, readme)


def _link(found: re.Match[str]) -> str:
    path = found[1]
    return f"](source/{path}.md)" if not (ROOT / "docs" / path).exists() else found[0]


def _page(path: Path) -> str:
    """A page with the text of a file, or of all files of a folder."""
    name = path.relative_to(ROOT)
    if path.suffix == ".md":
        return re.sub(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)]+)\)", _relinked, path.read_text(encoding="utf-8"))
    files = [path] if path.is_file() else [each for each in sorted(path.rglob("*")) if _is_source(each)]
    shown = [f"`{each.relative_to(ROOT)}`\n\n{_block(each)}" for each in files]
    return f"# {name}\n\n" + "\n\n".join(shown) + "\n"


def _relinked(found: re.Match[str]) -> str:
    """A link of a file beside `docs` as one of a page of source; without it where it leads elsewhere."""
    text, path = found.groups()
    return f"[{text}](../{path.removeprefix('docs/')})" if path.startswith("docs/") else str(text)


def _is_source(path: Path) -> bool:
    return path.is_file() and "node_modules" not in path.parts and path.name != "package-lock.json"


def _block(path: Path) -> str:
    return f"`````{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8')}\n`````"


class PublicNames(Extension):
    """Takes what a package imports for type checkers alone for its `__all__`, as `redraft.events.public_names` does."""

    def on_module_members(self, *, mod: Module, **_: object) -> None:
        """Sets the exports of a package that has such imports and no `__all__` of its own."""
        for key, package in [(key, each.wildcard) for key, each in mod.members.items() if each.is_alias]:
            if package is not None and not mod.members[key].runtime:  # `from package import *`
                mod.del_member(key)
                for name in import_module(package).__all__:
                    mod.set_member(name, Alias(name, f"{package}.{name}", runtime=False))
        offered = [name for name, each in mod.members.items() if each.is_alias and not each.runtime]
        if mod.is_init_module and mod.exports is None and offered and "public_names" in mod.members:
            mod.exports = list(offered)
