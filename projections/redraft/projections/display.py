"""Formats values for people: untrusted text on one line, usage, plurals. Scores are `messages.scales.score_text`'s."""

from __future__ import annotations

import re
import shlex
from json import dumps as encode_json
from typing import Final

import msgspec

from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import Outcome
from redraft.events.messages.folders import FOLDER, sections
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.run_state import Value, Values
from redraft.events.messages.usage import Usage

NAME_LENGTH: Final = 60
"""The maximum number of characters shown of a name (actor, workflow, file)."""
MESSAGE_LENGTH: Final = 300
"""The maximum number of characters shown of a worker's message."""
VALUE_LENGTH: Final = 60
"""The maximum number of characters shown of a value of a run's state, beside others."""
VALUES_SHOWN: Final = 5
"""The maximum number of values of a run's state that are listed in one line."""
ERASED_VALUES: Final[Values] = {"erased": True}
"""The sign that stands in place of values that were erased."""

UNSEEN: Final = (
    "\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff"
)
"""Characters that control a terminal, change the direction of text, or are invisible, for a regular expression."""

_UNSEEN: Final = re.compile(f"[{UNSEEN}]+")
_STEERS: Final = re.compile(f"(?![\\n\\t])[{UNSEEN}]")


def plain(text: str, limit: int = MESSAGE_LENGTH) -> str:
    """Returns untrusted text as one line of at most `limit` characters, without control or direction characters."""
    text = text[: limit * 8]
    seen = " ".join((text if _is_plain(text) else _UNSEEN.sub(" ", text)).split())
    return seen if len(seen) <= limit else seen[: limit - 1].rstrip() + "…"


def in_one_line(text: str, limit: int = MESSAGE_LENGTH) -> str:
    """Returns untrusted text of several lines, such as an error's, as `plain` text with a bar between its lines."""
    return plain(" | ".join(line.strip() for line in text[: limit * 8].splitlines() if line.strip()), limit)


def visible(text: str) -> str:
    """Returns untrusted text with its lines and tabs; other characters of `UNSEEN` become a symbol or their number."""
    return text if _is_plain(text) else _STEERS.sub(_sign, text)


def _is_plain(text: str) -> bool:
    """Returns whether a text has letters of ASCII alone, which nearly all have: that is quickly known."""
    return text.isascii() and text.isprintable()


def error_text(error: BaseException) -> str:
    """Returns an error's class and message; of PostgreSQL's only primary message and code, as details quote rows.

    It is the class alone where the error cannot say its message, as its `__str__` raises.
    """
    try:
        primary = getattr(getattr(error, "diag", None), "message_primary", None)
        text = f"{primary} ({getattr(error, 'sqlstate', None)})" if primary else str(error)
    except BaseException:  # noqa: BLE001 - it is somebody else's code, and must not end the process
        text = ""
    return f"{type(error).__name__}: {text}".rstrip(": ")


def escaped(json: str) -> str:
    """Returns JSON with each character of `UNSEEN` written as an escape, which means the same to a parser."""
    return _STEERS.sub(lambda found: encode_json(found.group())[1:-1], json)


def _sign(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def quoted(text: str) -> str:
    """Returns untrusted text as one argument for a shell."""
    return shlex.quote(plain(text))


def brief_text(brief: Brief, most: int = 5) -> str:
    """Returns the text of a brief; of one of several files, which these are: `10 files: cart.py, item.py, …`."""
    if brief.media_type != FOLDER or brief.text == ERASED:
        return brief.text
    paths = [section[4:].partition("\n")[0].partition(" | ")[0] for section in sections(brief.text)]
    more = ", …" if len(paths) > most else ""
    return f"{counted(len(paths), 'file')}: {', '.join(paths[:most])}{more}"


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun: `1 error`, `3 errors`, `2 iterations`."""
    ending = "es" if noun.endswith(("s", "sh", "ch")) else "s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{ending}"


def short_number(value: float) -> str:
    """Returns a number for an axis, in at most about four characters: `0.5`, `-100`, `20k`."""
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= (10_000 if size == 1e3 and value > 0 else size):
            return f"{value / size:.3g}{name}"
    return f"{value:g}" if float(value).is_integer() else f"{value:.3g}"


def usage_text(usage: Usage) -> str:
    """Returns usage as `3 calls, 1,234 tokens, 0.0123 USD`; empty without usage."""
    if usage.is_nothing:
        return ""
    parts = [counted(usage.calls, "call")] if usage.calls else []
    parts += [counted(usage.tokens, "token")] if usage.tokens else []
    parts += [cost] if (cost := cost_text(usage.cost, usage.currency, usage.unpriced)) else []
    return ", ".join(parts)


def cost_text(cost: float, currency: str, unpriced: int) -> str:
    """Returns a cost as `0.0123 USD`; `at least 0.0123 USD`, or `cost unknown`, when some calls had no price.

    Empty where nothing was paid.
    """
    if not cost:
        return "cost unknown" if unpriced else ""
    return f"{'at least ' if unpriced else ''}{cost:.4f} {plain(currency, NAME_LENGTH)}".rstrip()


def value_text(value: Value, limit: int = VALUE_LENGTH) -> str:
    """Returns a value of a run's state as JSON on one line: `"children"`, `3`, `["tides.org"]`."""
    return plain(msgspec.json.encode(value).decode(), limit)


def values_text(values: Values) -> str:
    """Returns values of a run's state as `audience = "children", limit = 3`, the first of them; empty for none."""
    if values == ERASED_VALUES:
        return "values that are erased"
    parts = [f"{plain(name, NAME_LENGTH)} = {value_text(value)}" for name, value in [*values.items()][:VALUES_SHOWN]]
    left = len(values) - VALUES_SHOWN
    return ", ".join([*parts, counted(left, "more value")] if left > 0 else parts)


def outcome_text(outcome: Outcome) -> str:
    """Returns an outcome in words: `over_budget` becomes `over budget`."""
    return outcome.replace("_", " ")


def duration_text(seconds: float) -> str:
    """Returns a duration in words: `12 ms`, `3.4 s`, `2 min 5 s`, `3 h 7 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
