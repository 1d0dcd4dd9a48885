"""YAML text as nodes that know their file, line and path, so that each fault names its place.

    article.yaml:6: steps[1].repeat.max_iteration: no such key; did you mean max_iterations?

Only plain data is read: no anchors, aliases, tags or second documents, and no unlimited nesting.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import yaml

from redraft.actors.values import parse_duration, shown
from redraft.events.errors import PlanError, suggest

MAX_BYTES: Final = 256 * 1024
"""The largest text that is read, in bytes of UTF-8."""

MAX_DEPTH: Final = 50
"""How deep mappings and lists may nest."""


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A value in a YAML text: `path` leads to it, such as `steps[1].repeat.until`."""

    source: str
    path: str
    node: yaml.Node

    @property
    def line(self) -> int:
        """The line on which it begins, from 1."""
        return _line(self.node.start_mark)

    def fault(self, fault: str) -> PlanError:
        """Returns the error that names this place."""
        place = f"{self.source}:{self.line}"
        return PlanError(f"{place}: {self.path}" if self.path else place, fault)

    def within(self, step: str, node: yaml.Node) -> SourceNode:
        """Returns a value in this one; `step` is a key, or an index such as `[2]`."""
        return SourceNode(self.source, f"{self.path}{'.' if self.path and step[:1] != '[' else ''}{step}", node)


def compose(text: str, source: str) -> SourceNode:
    """Returns the root of a YAML text; raises PlanError with file and line unless it is one document of plain data."""
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
    return SourceNode(source, "", node)


def _check_events(text: str, source: str) -> None:
    """Rejects YAML features that plain data does not need, before building any objects.

    These are anchors, tags, several documents and deep nesting.
    """
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
        return PlanError(place, f"this is not YAML: {problem}; check indentation, quotes and colons")
    position = getattr(error, "position", 0)
    line = text.count("\n", 0, position) + 1
    return PlanError(f"{source}:{line}", f"character {position + 1} of the file may not stand in YAML; remove it")


def _line(mark: object) -> int:
    return int(getattr(mark, "line", 0)) + 1


_TAG: Final = "tag:yaml.org,2002:"
_KINDS: Final = {
    f"{_TAG}bool": "a yes or no",
    f"{_TAG}int": "a number",
    f"{_TAG}float": "a number",
    f"{_TAG}timestamp": "a date",
    f"{_TAG}null": "nothing",
    f"{_TAG}merge": "a merge",
    f"{_TAG}value": "a default",
}
_WHOLE: Final = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)
_MAX_DIGITS: Final = 400


def mapping(spot: SourceNode, keys: tuple[str, ...], needed: tuple[str, ...] = ()) -> dict[str, SourceNode]:
    """Returns the values of a mapping by key; raises PlanError on unknown, missing and repeated keys."""
    found = dict(entries(spot, keys))
    for key in needed:
        if key not in found:
            raise spot.fault(f"{key} is missing; add {key}:")
    return found


def entries(spot: SourceNode, keys: tuple[str, ...] | None = None) -> Iterator[tuple[str, SourceNode]]:
    """Yields each key of a mapping with its value, in order; `keys` are those allowed, or None for any."""
    if not isinstance(spot.node, yaml.MappingNode):
        example = f", such as {{{keys[0]}: …}}" if keys else ""
        raise spot.fault(f"{_kind(spot)} is here; write a mapping{example}")
    seen: set[str] = set()
    for key_node, value in spot.node.value:
        key = read_text(SourceNode(spot.source, spot.path, key_node))
        place = SourceNode(spot.source, spot.within(_shown_key(key), value).path, key_node)
        if key in seen:
            raise place.fault("this key comes twice; keep one")
        if keys is not None and key not in keys:
            raise place.fault(f"no such key; {suggest(key, keys)}")
        seen.add(key)
        yield key, spot.within(_shown_key(key), value)


def sequence(spot: SourceNode) -> list[SourceNode]:
    """Returns the items of a list."""
    if not isinstance(spot.node, yaml.SequenceNode):
        raise spot.fault(f"{_kind(spot)} is here; write a list, each item after '- '")
    return [spot.within(f"[{index}]", node) for index, node in enumerate(spot.node.value)]


def read_text(spot: SourceNode) -> str:
    """Returns a text; rejects values that YAML reads as something else, such as no, on, 12 or 2024-01-01."""
    if is_kind(spot, "str"):
        return str(spot.node.value)
    if not isinstance(spot.node, yaml.ScalarNode) or is_kind(spot, "null"):
        raise spot.fault(f"{_kind(spot)} is here; write text")
    raise spot.fault(f"YAML reads {shown(spot.node.value)} as {_kind(spot)}; put it in quotes to make it text")


def read_word(spot: SourceNode) -> str:
    """Returns one of several words, as it stands: the plan's check says which there are."""
    return str(spot.node.value) if is_kind(spot, "bool") else read_text(spot)


def read_whole(spot: SourceNode) -> int:
    """Returns a whole number in decimal digits."""
    if not is_kind(spot, "int") or not _WHOLE.fullmatch(spot.node.value) or len(spot.node.value) > _MAX_DIGITS:
        raise spot.fault(f"{_value(spot)} is here; write a whole number such as 5")
    return int(spot.node.value)


def read_number(spot: SourceNode) -> float:
    """Returns a finite number in decimal digits."""
    if isinstance(spot.node, yaml.ScalarNode) and not spot.node.style and _NUMBER.fullmatch(spot.node.value):
        value = float(spot.node.value)
        if math.isfinite(value):
            return value
    raise spot.fault(f"{_value(spot)} is here; write a finite number such as 0.5")


def read_seconds(spot: SourceNode) -> float:
    """Returns a time in seconds, from `90`, `90s`, `2m`, `1h` or `2d`."""
    seconds = parse_duration(spot.node.value) if isinstance(spot.node, yaml.ScalarNode) else None
    if seconds is None:
        raise spot.fault(f"{_value(spot)} is here; write a time in seconds, or 90s, 2m, 1h")
    return seconds


def read_truth(spot: SourceNode) -> bool:
    """Returns `true` or `false`; rejects YAML's yes, no, on and off, as they are often meant as text."""
    if spot.node.value not in ("true", "false"):
        raise spot.fault(f"{spot.node.value!r} may be text or a yes or no; write true or false, or put it in quotes")
    return bool(spot.node.value == "true")


def is_kind(spot: SourceNode, kind: str) -> bool:
    """Returns whether YAML reads the value as this: str, bool, int, float, null, seq or map."""
    return bool(spot.node.tag == f"{_TAG}{kind}")


def _kind(spot: SourceNode) -> str:
    match spot.node:
        case yaml.MappingNode():
            return "a mapping"
        case yaml.SequenceNode():
            return "a list"
        case _:
            return _KINDS.get(spot.node.tag, "text")


def _value(spot: SourceNode) -> str:
    if not isinstance(spot.node, yaml.ScalarNode) or is_kind(spot, "null"):
        return _kind(spot)
    return f"{shown(spot.node.value)} in quotes" if spot.node.style else shown(spot.node.value)


def _shown_key(key: str) -> str:
    return key if key.replace("-", "_").isidentifier() and len(key) <= 100 else shown(key)
