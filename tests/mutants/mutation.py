"""Mutants of a module: its text with one small thing changed, by the operators of mutmut.

mutmut's own runner takes a module's name from its path, which says something else where one namespace package lies in
several folders; so its operators make the mutants here, and `trial` tries them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import libcst as cst
import msgspec
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import MutationVisitor, OuterFunctionProvider
from mutmut.mutation.mutators import mutation_operators, operator_match
from mutmut.mutation.pragma_handling import IgnoredCode

FOR_THE_TYPE_CHECKER = ("assert_never", "cast")
"""Calls that do nothing when the program runs, and are not mutated; annotations are not either."""

AROUND = 30
"""Characters before and after a change that are shown with it."""


class Mutant(msgspec.Struct, frozen=True):
    """Where a module is changed, and how: by the operator's n-th change in this function."""

    module: str
    function: str
    operator: str
    number: int
    line: int
    change: str

    @property
    def id(self) -> str:
        """Its name: the same as long as nothing before it in its function changes."""
        return f"{self.module}:{self.function}:{self.operator}:{self.number}"


class Source:
    """A module's text, and its mutants."""

    def __init__(self, module: str) -> None:
        spec = find_spec(f"redraft.{module}")
        assert spec is not None
        assert spec.origin is not None
        self.path = Path(spec.origin)
        self.text = self.path.read_text(encoding="utf-8")
        wrapper = MetadataWrapper(cst.parse_module(self.text))
        visitor = _Visitor()
        wrapper.visit(visitor)
        self._tree = wrapper.module
        self._parts = [self._tree.code_for_node(each) for each in self._tree.body]
        self._nodes: dict[str, tuple[int, cst.CSTNode, cst.CSTNode]] = {}
        self.mutants = list(self._named(module, visitor))

    def mutated(self, mutant: Mutant) -> str:
        """The module's text with the mutant in it."""
        place, old, new = self._nodes[mutant.id]
        part = self._tree.body[place].deep_replace(old, new)
        assert isinstance(part, cst.CSTNode)
        return "".join([*self._parts[:place], self._tree.code_for_node(part), *self._parts[place + 1 :]])

    def _named(self, module: str, visitor: _Visitor) -> Iterator[Mutant]:
        places = {function: (place, name) for place, name, function in _functions(self._tree)}
        counts = Counter[tuple[str, str]]()
        for function, operator, line, old, new in visitor.found:
            (place, name), kind = places[function], operator.removeprefix("operator_")
            counts[name, kind] += 1
            made = Mutant(module, name, kind, counts[name, kind], line, self._change(old, new))
            self._nodes[made.id] = (place, old, new)
            yield made

    def _change(self, old: cst.CSTNode, new: cst.CSTNode) -> str:
        """What is there, and what comes instead, without what both begin and end with."""
        was, becomes = (" ".join(self._tree.code_for_node(each).split()) for each in (old, new))
        return shortened(was, becomes)


def shortened(was: str, becomes: str) -> str:
    """A change, with a little of what is the same on both its sides."""
    same = _alike(was, becomes)
    alike = _alike(was[same:][::-1], becomes[same:][::-1])
    first, last = max(same - AROUND, 0), max(alike - AROUND, 0)
    cut = [each[first : len(each) - last] for each in (was, becomes)]
    return f"{'…' * (first > 0)}{cut[0]}{'…' * (last > 0)} -> {'…' * (first > 0)}{cut[1]}{'…' * (last > 0)}"


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class _Visitor(MutationVisitor):
    """As mutmut's, with properties, and without what is there for the type checker alone."""

    def __init__(self) -> None:
        super().__init__(mutation_operators, IgnoredCode(set(), set(), set()))
        self.found: list[tuple[cst.FunctionDef, str, int, cst.CSTNode, cst.CSTNode]] = []

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef):
            return False
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in FOR_THE_TYPE_CHECKER:
            return True
        return bool(super()._skip_node_and_children(node))

    def _create_mutations(self, node: cst.CSTNode) -> None:
        function = self.get_metadata(OuterFunctionProvider, node, None)
        if not isinstance(function, cst.FunctionDef):
            return
        position: Any = self.get_metadata(PositionProvider, node, None)
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                for new in operator(node):
                    if operator is not operator_match or not _lacks_only_the_unreachable(node, new):
                        line = position.start.line if position else 0
                        self.found.append((function, operator.__name__, line, node, new))


def _lacks_only_the_unreachable(old: Any, new: Any) -> bool:
    (gone,) = [each for each in old.cases if each not in new.cases]
    return "assert_never" in cst.Module([]).code_for_node(gone)


def _functions(tree: cst.Module) -> Iterator[tuple[int, str, cst.FunctionDef]]:
    """The functions and methods of a module, each with the number of its part of the module, and its name."""
    for place, each in enumerate(tree.body):
        match each:
            case cst.FunctionDef():
                yield place, each.name.value, each
            case cst.ClassDef(body=cst.IndentedBlock(body=body)):
                for inner in body:
                    if isinstance(inner, cst.FunctionDef):
                        yield place, f"{each.name.value}.{inner.name.value}", inner
            case _:
                pass
