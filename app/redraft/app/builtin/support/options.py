"""A step's options, read strictly: an unknown name or a wrong value is refused in one line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from redraft.events.errors import PermanentError, suggest
from redraft.events.messages.plan import Option

T = TypeVar("T", bound=msgspec.Struct)

_PLACE: Final = re.compile(r"(?P<fault>.*) - at `\$\.(?P<name>\w+)(?P<rest>[^`]*)`")


def read_options(kind: type[T], options: Mapping[str, Option], actor: str) -> T:
    """The options as a `kind`, a struct whose fields are the options' names, types, ranges and defaults.

    Raises PermanentError that names the actor, the option, and the nearest right name or the value that is expected.
    """
    for name in options:
        if name not in kind.__struct_fields__:
            raise PermanentError(f"{actor}: there is no option {name!r}; {nearest(name, kind.__struct_fields__)}")
    for name, choices in _choices(kind).items():
        if name in options and options[name] not in choices:
            raise PermanentError(
                f"{actor}: option {name} cannot be {options[name]!r}; {nearest(str(options[name]), choices)}"
            )
    try:
        return msgspec.convert(dict(options), kind)
    except msgspec.ValidationError as error:
        raise PermanentError(f"{actor}: {_fault(str(error))}") from None


def nearest(name: str, known: Sequence[str], otherwise: str = "") -> str:
    """A remedy: `did you mean …?` when a known name is close, otherwise the list of the known names.

    `otherwise` is what may be given instead.
    """
    remedy = suggest(name, known, f"choose from {', '.join(known)}", quoted=True)
    if not otherwise:
        return remedy
    return f"{remedy} Otherwise {otherwise}" if remedy.endswith("?") else f"{remedy}, or {otherwise}"


def _choices(kind: type[msgspec.Struct]) -> dict[str, tuple[str, ...]]:
    hints = get_type_hints(kind)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


def _fault(message: str) -> str:
    found = _PLACE.fullmatch(message)
    if found is None:
        return message
    return f"option {found['name']}{found['rest']}: {found['fault'][:1].lower()}{found['fault'][1:]}"


RELEASE: Final = f"redraft-{version('redraft')}"

LISTED: Final = 100
"""The number of findings that a critique lists; it counts the rest."""


def listed(lines: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The first LISTED lines, and a sentence about the others if there are any."""
    more = len(lines) - LISTED
    return tuple(lines[:LISTED]), (f"{more} more findings are not listed",) if more > 0 else ()


def changed_lines(before: str, after: str, who: str) -> tuple[str, ...]:
    """`who: 3 lines added, 2 removed`, counted without regard to order, in linear time; empty when nothing changed."""
    if before == after:
        return ()
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    added, removed = (new - old).total(), (old - new).total()
    if not added and not removed:
        return (f"{who}: lines moved or their ends changed",)
    return (f"{who}: {added} line{'s' * (added != 1)} added, {removed} removed",)
