"""YAML text as spots: values that know their file, line and path, so that each fault says where it is.

    article.yaml:6: steps[1].repeat.max_iteration: no such key; did you mean max_iterations?

Only plain data is read: no anchors, aliases, tags or second documents, and nothing that nests without end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import yaml

from redraft.actors.values import shown
from redraft.events.errors import PlanError

MAX_BYTES: Final = 256 * 1024
"""The largest text that is read, in bytes of UTF-8."""

MAX_DEPTH: Final = 50
"""How deep mappings and lists may nest."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A value in a YAML text: `path` leads to it, such as `steps[1].repeat.until`."""

    source: str
    path: str
    node: yaml.Node

    @property
    def line(self) -> int:
        """The line that it begins on, from 1."""
        return _line(self.node.start_mark)

    def fault(self, fault: str) -> PlanError:
        """The error that names this place."""
        place = f"{self.source}:{self.line}"
        return PlanError(f"{place}: {self.path}" if self.path else place, fault)

    def within(self, step: str, node: yaml.Node) -> Spot:
        """A value in this one; `step` is a key, or an index such as `[2]`."""
        return Spot(self.source, f"{self.path}{'.' if self.path and step[:1] != '[' else ''}{step}", node)


def compose(text: str, source: str) -> Spot:
    """The whole of a YAML text; raises PlanError with file and line when it is not one document of plain data."""
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        raise PlanError(source, f"{size:,} bytes, more than {MAX_BYTES:,}; a workflow is shorter than that")
    try:
        _check_events(text, source)
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise _unreadable(error, text, source) from None
    if node is None:
        raise PlanError(f"{source}:1", "the file is empty; write name: and steps:")
    return Spot(source, "", node)


def _check_events(text: str, source: str) -> None:
    """Refuses, before anything is built, what plain data needs not: anchors, tags, more documents, great depth."""
    depth = documents = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        fault = _event_fault(event, depth, documents)
        if fault:
            raise PlanError(f"{source}:{_line(event.start_mark)}", fault)


def _event_fault(event: yaml.Event, depth: int, documents: int) -> str | None:
    if documents > 1:
        return "a second document begins here; keep one workflow in a file"
    if depth > MAX_DEPTH:
        return f"this nests more than {MAX_DEPTH} deep; make it flatter"
    if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
        return f"anchors and aliases are not read here ({shown(event.anchor)}); write the value out"
    if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
        return f"tags are not read here ({shown(event.tag)}); write plain values"
    return None


def _unreadable(error: yaml.YAMLError, text: str, source: str) -> PlanError:
    if isinstance(error, yaml.MarkedYAMLError):
        problem = error.problem or error.context
        place = f"{source}:{_line(error.problem_mark)}"
        return PlanError(place, f"this is no YAML: {problem}; check indentation, quotes and colons")
    position = getattr(error, "position", 0)
    line = text.count("\n", 0, position) + 1
    return PlanError(f"{source}:{line}", f"character {position + 1} of the file may not stand in YAML; remove it")


def _line(mark: object) -> int:
    return int(getattr(mark, "line", 0)) + 1
