"""What is read from a spot of YAML: mappings with known keys, lists, texts, numbers, times, each checked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

import yaml

from redraft.actors.values import shown
from redraft.actors.yaml_spots import Spot

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
_SECONDS: Final = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s?([smhd]?)", re.ASCII)
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_WHOLE: Final = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)
_MAX_DIGITS: Final = 400


def mapping(spot: Spot, keys: tuple[str, ...], needed: tuple[str, ...] = ()) -> dict[str, Spot]:
    """The values of a mapping by key; raises PlanError on other keys, missing ones, and keys that come twice."""
    found = dict(entries(spot, keys))
    for key in needed:
        if key not in found:
            raise spot.fault(f"{key} is missing; add {key}:")
    return found


def entries(spot: Spot, keys: tuple[str, ...] | None = None) -> Iterator[tuple[str, Spot]]:
    """Each key of a mapping with its value, in order; `keys` are those that may be there, or None for any."""
    if not isinstance(spot.node, yaml.MappingNode):
        example = f", such as {{{keys[0]}: …}}" if keys else ""
        raise spot.fault(f"{_kind(spot)} is here; write a mapping{example}")
    seen: set[str] = set()
    for key_node, value in spot.node.value:
        key = read_text(Spot(spot.source, spot.path, key_node))
        place = Spot(spot.source, spot.within(_shown_key(key), value).path, key_node)
        if key in seen:
            raise place.fault("this key comes twice; keep one")
        if keys is not None and key not in keys:
            raise place.fault(f"no such key; {_suggested(key, keys)}")
        seen.add(key)
        yield key, spot.within(_shown_key(key), value)


def sequence(spot: Spot) -> list[Spot]:
    """The items of a list."""
    if not isinstance(spot.node, yaml.SequenceNode):
        raise spot.fault(f"{_kind(spot)} is here; write a list, each item after '- '")
    return [spot.within(f"[{index}]", node) for index, node in enumerate(spot.node.value)]


def read_text(spot: Spot) -> str:
    """A text; what YAML reads as something else, such as no, on, 12 or 2024-01-01, is refused."""
    if _is(spot, "str"):
        return str(spot.node.value)
    if not isinstance(spot.node, yaml.ScalarNode) or _is(spot, "null"):
        raise spot.fault(f"{_kind(spot)} is here; write text")
    raise spot.fault(f"YAML reads {shown(spot.node.value)} as {_kind(spot)}; put it in quotes to make it text")


def read_whole(spot: Spot) -> int:
    """A whole number in decimal digits."""
    if not _is(spot, "int") or not _WHOLE.fullmatch(spot.node.value) or len(spot.node.value) > _MAX_DIGITS:
        raise spot.fault(f"{_value(spot)} stands where a whole number is due; write one such as 5")
    return int(spot.node.value)


def read_number(spot: Spot) -> float:
    """A finite number in decimal digits."""
    if isinstance(spot.node, yaml.ScalarNode) and not spot.node.style and _NUMBER.fullmatch(spot.node.value):
        value = float(spot.node.value)
        if math.isfinite(value):
            return value
    raise spot.fault(f"{_value(spot)} stands where a finite number is due; write one such as 0.5")


def read_seconds(spot: Spot) -> float:
    """A time in seconds, from `90`, `90s`, `2m`, `1h` or `2d`."""
    found = _SECONDS.fullmatch(spot.node.value) if isinstance(spot.node, yaml.ScalarNode) else None
    if found is None:
        raise spot.fault(f"{_value(spot)} stands where a time is due; write seconds, or 90s, 2m, 1h")
    return float(found[1]) * _UNITS[found[2]]


def read_truth(spot: Spot) -> bool:
    """`true` or `false`; YAML's yes, no, on and off are refused, as they are often meant as text."""
    if spot.node.value not in ("true", "false"):
        raise spot.fault(f"{spot.node.value!r} may be text or a yes or no; write true or false, or put it in quotes")
    return bool(spot.node.value == "true")


def is_kind(spot: Spot, *kinds: str) -> bool:
    """Whether YAML reads the value as one of these: str, bool, int, float, null, seq, map."""
    return any(_is(spot, kind) for kind in kinds)


def _is(spot: Spot, kind: str) -> bool:
    return bool(spot.node.tag == f"{_TAG}{kind}")


def _kind(spot: Spot) -> str:
    match spot.node:
        case yaml.MappingNode():
            return "a mapping"
        case yaml.SequenceNode():
            return "a list"
        case _:
            return _KINDS.get(spot.node.tag, "text")


def _value(spot: Spot) -> str:
    if not isinstance(spot.node, yaml.ScalarNode) or _is(spot, "null"):
        return _kind(spot)
    return f"{shown(spot.node.value)} in quotes" if spot.node.style else shown(spot.node.value)


def _shown_key(key: str) -> str:
    return key if key.replace("-", "_").isidentifier() and len(key) <= 100 else shown(key)


def _suggested(key: str, keys: tuple[str, ...]) -> str:
    near = get_close_matches(key, keys, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(keys)}"
