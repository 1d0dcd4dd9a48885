"""The words of a condition's text, looked at before it is parsed: what means nothing is refused with its column."""

from __future__ import annotations

import re
from typing import Final

from redraft.events.errors import ConditionError

MAX_NESTING: Final = 50
"""How deep the parentheses of a text may nest, and how many `not`, `~` and `-` may stand in a row."""

_WORD: Final = re.compile(
    r"""
      (?P<slip>   && | \|\| | != | <> | => | =< | [!≥≤≠¬%^*/+{}\[\]'"`;:@?] )
    | (?P<number> (?: \d[\d_]*\.?[\d_]* | \.\d[\d_]* ) (?: [eE][+-]?\d+ )? )
    | (?P<name>   [A-Za-z_]\w* )
    | (?P<sign>   >= | <= | == | [<>|&~(),=-] )
    | (?P<space>  \s+ )
    """,
    re.VERBOSE | re.ASCII,
)
_REMEDIES: Final = {
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
    "¬": "write `not`",
    "!=": "write `not (… == …)`",
    "<>": "write `not (… == …)`",
    "≠": "write `not (… == …)`",
    "=>": "write `>=`",
    "≥": "write `>=`",
    "=<": "write `<=`",
    "≤": "write `<=`",
    "%": "write a share of 1, such as 0.9",
}
_PREFIXES: Final = frozenset({"not", "~", "-"})
_JOINING: Final = frozenset({"and", "or", "not"})


def check_words(text: str) -> None:
    """Raises ConditionError at the first word that no condition has, or where the text nests too deep to be parsed."""
    depth = row = position = 0
    while position < len(text):
        word = _word(text, position)
        depth += {"(": 1, ")": -1}.get(word, 0)
        row = row + 1 if word in _PREFIXES else row if word.isspace() else 0
        if max(depth, row) > MAX_NESTING:
            raise _fault(position, f"more than {MAX_NESTING} levels deep; write a simpler condition")
        position += len(word)


def _word(text: str, position: int) -> str:
    found = _WORD.match(text, position)
    if found is None or found.lastgroup == "slip":
        word = found.group() if found else text[position]
        raise _fault(position, f"{word!r} means nothing here; {_REMEDIES.get(word, 'remove it')}")
    word = found.group()
    after = text[found.end() : found.end() + 1]
    if found.lastgroup == "number" and (after.isalnum() or after == "_"):
        raise _fault(
            found.end(), f"{after!r} follows {word}; numbers have no unit (elapsed is seconds), words need a space"
        )
    if found.lastgroup == "name" and word not in _JOINING and word.lower() in _JOINING:
        raise _fault(position, f"{word!r} is written in small letters here: {word.lower()!r}")
    return word


def _fault(position: int, fault: str) -> ConditionError:
    return ConditionError(f"condition, column {position + 1}: {fault}")
