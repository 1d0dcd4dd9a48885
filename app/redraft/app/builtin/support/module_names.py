"""The names that a Python module binds, read from its text without running it. It imports nothing but Python's own."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import Final

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.GeneratorExp)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)

_INERT: Final = sys.stdlib_module_names - {"antigravity", "readline", "rlcompleter", "this"}
"""The modules whose import does nothing that a program could need but bind a name."""


def bound_names(tree: ast.Module) -> frozenset[str]:
    """Every name that the module binds, wherever in its blocks; `* from m` for an import of everything from m."""
    return frozenset(name for node in _nodes(tree) for name in _bound_by(node))


def public_names(tree: ast.Module) -> frozenset[str]:
    """The names that others may need: those of `__all__`, else those without an underscore first."""
    listed = exported_names(tree)
    bound = bound_names(tree)
    named = listed if listed is not None else frozenset(name for name in bound if not name.startswith("_"))
    return named | {name for name in bound if _is_special(name)}


def exported_names(tree: ast.Module) -> frozenset[str] | None:
    """The names of `__all__`; None when the module has none, or one that cannot be read from the text."""
    nodes = list(_nodes(tree))
    uses = sum(isinstance(node, ast.Name) and node.id == "__all__" for node in nodes)
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value) if uses == 1:
                return _texts(value)
            case _:
                continue
    return None


def needed_imports(tree: ast.Module) -> dict[tuple[int, int], str]:
    """The imports that a module may need though it uses no name of them: line and column (from 1), and the name.

    An import is not needed if `__all__` does not list its name, or the module made the name private (`os as _os`), and
    if it is one of Python's own library: any other may be there for what it does, such as to register a plugin. A name
    that was private where it came from is one that modules share which belong together.
    """
    listed = exported_names(tree)
    found: dict[tuple[int, int], str] = {}
    for node in _nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", "") != "__future__":
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                shared = isinstance(node, ast.ImportFrom) and name.startswith("_") and alias.asname is None
                exported = shared or (name in listed if listed is not None else not name.startswith("_"))
                if name != "*" and (exported or not _is_inert(node, alias)):
                    found[alias.lineno, alias.col_offset + 1] = name
    return found


def inner_imports(tree: ast.Module) -> frozenset[tuple[int, int]]:
    """Line and column (from 1) of the imports in functions and classes that may be there for what they do."""
    outer = set(map(id, _nodes(tree)))
    return frozenset(
        (alias.lineno, alias.col_offset + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in outer
        for alias in node.names
        if not _is_inert(node, alias)
    )


def _is_inert(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    """Returns whether an import does nothing but bind a name."""
    module = alias.name if isinstance(node, ast.Import) else "" if node.level else node.module or ""
    return module.partition(".")[0] in _INERT


def _texts(value: ast.expr) -> frozenset[str] | None:
    match value:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            texts = [each.value for each in items if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            return frozenset(texts) if len(texts) == len(items) else None
        case _:
            return None


def _is_special(name: str) -> bool:
    return name.startswith("* from ") or (name.startswith("__") and name.endswith("__"))


def _nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes that run when the module is imported, without those in functions and classes, in no order."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        match node:
            case _ if isinstance(node, _SCOPES):
                continue
            case _ if isinstance(node, _COMPREHENSIONS):
                pending += [each for each in ast.walk(node) if isinstance(each, ast.NamedExpr)]
            case _:
                pending += ast.iter_child_nodes(node)


def _bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.Import(names=aliases):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
        case ast.ImportFrom(module=module, names=aliases):
            for alias in aliases:
                yield f"* from {module}" if alias.name == "*" else alias.asname or alias.name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case _:
            return
