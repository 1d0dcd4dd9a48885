"""A step's options, read strictly: an unknown name or a wrong value is refused in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from redraft.events.errors import PermanentError
from redraft.events.plan import Option

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


def nearest(name: str, known: Sequence[str]) -> str:
    """A remedy: `did you mean …?` when a known name is close, otherwise the list of the known names."""
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known)}"


def _choices(kind: type[msgspec.Struct]) -> dict[str, tuple[str, ...]]:
    hints = get_type_hints(kind)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


def _fault(message: str) -> str:
    found = _PLACE.fullmatch(message)
    if found is None:
        return message
    return f"option {found['name']}{found['rest']}: {found['fault'][:1].lower()}{found['fault'][1:]}"
