"""HTML from untrusted text: whatever is not made by `tag` or `text` is no Markup, and mypy says so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final, NewType

from redraft.projections.plain import visible

Markup = NewType("Markup", str)
"""Text that is HTML already, and safe."""

NOTHING: Final = Markup("")
_VOID: Final = frozenset({"br", "col", "hr", "meta"})
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*\Z")


def text(value: str) -> Markup:
    """Any text, escaped; control and direction characters are shown by a sign or their number instead of working."""
    return Markup(escape(visible(value)))


def tag(name: str, *children: Markup, **attributes: str) -> Markup:
    """An element. Attribute values are escaped; `cls` stands for `class`, and `_` in an attribute's name for `-`."""
    known = {
        ("class" if key == "cls" else key.rstrip("_").replace("_", "-")): value for key, value in attributes.items()
    }
    if not all(map(_NAME.match, (name, *known))):
        raise ValueError(f"<{name}> or its attributes {sorted(known)} cannot be written")
    opening = name + "".join(f' {key}="{text(value)}"' for key, value in known.items())
    return Markup(f"<{opening}>" if name in _VOID else f"<{opening}>{''.join(children)}</{name}>")


def joined(parts: Iterable[Markup], between: str = "") -> Markup:
    """Markup after markup, with escaped text between."""
    return Markup(text(between).join(parts))


def folding(summary: Markup, *content: Markup, opened: bool = False, cls: str = "") -> Markup:
    """A part that can be opened and closed without a script."""
    attributes = {**({"cls": cls} if cls else {}), **({"open": ""} if opened else {})}
    return tag("details", tag("summary", summary), *content, **attributes)
