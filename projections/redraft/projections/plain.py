"""Words for people: untrusted text made fit for one line, scores that do not look better than they are, plurals."""

from __future__ import annotations

import re
import shlex
from decimal import ROUND_FLOOR, Decimal
from json import dumps as encode_json
from typing import Final

from redraft.events.domain_events import Outcome
from redraft.events.usage import Usage

NAME_LENGTH: Final = 60
"""The characters of a name (actor, workflow, file) that are shown."""
MESSAGE_LENGTH: Final = 300
"""The characters of a worker's message that are shown."""

UNSEEN: Final = (
    "\x00-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff"
)
"""What steers a terminal, turns the direction of a text, or hides in it, as part of a regular expression's set."""

_UNSEEN: Final = re.compile(f"[{UNSEEN}]+")
_STEERS: Final = re.compile(f"(?![\\n\\t])[{UNSEEN}]")


def plain(text: str, most: int = MESSAGE_LENGTH) -> str:
    """Untrusted text as one line for a terminal or a table: no control or direction characters, at most `most` long."""
    seen = " ".join(_UNSEEN.sub(" ", text[: most * 8]).split())
    return seen if len(seen) <= most else seen[: most - 1].rstrip() + "…"


def visible(text: str) -> str:
    """Untrusted text with its lines and tabs, and a sign or a number for each other character that is UNSEEN."""
    return _STEERS.sub(_sign, text)


def error_text(error: BaseException) -> str:
    """An error's kind and words. Of PostgreSQL's the primary message and code: its details hold texts of a row."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    said = f"{primary} ({getattr(error, 'sqlstate', None)})" if primary else str(error)
    return f"{type(error).__name__}: {said}".rstrip(": ")


def escaped(json: str) -> str:
    """JSON in one line with such characters written by their numbers, which says the same."""
    return _STEERS.sub(lambda found: encode_json(found.group())[1:-1], json)


def _sign(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def quoted(text: str) -> str:
    """Returns untrusted text as one argument for a shell."""
    return shlex.quote(plain(text))


def score_text(score: float) -> str:
    """A score with two or three decimals, never rounded up: 0.8999 is `0.899`, so that it does not look like 0.9."""
    if not 0 <= score <= 1:
        return f"{score:.3g}"
    floored = str(Decimal(f"{score:.9f}").quantize(Decimal("0.001"), ROUND_FLOOR))
    return floored.removesuffix("0")


def counted(number: int, noun: str) -> str:
    """`1 error`, `3 errors`, `2 passes`."""
    ending = "es" if noun.endswith(("s", "sh", "ch")) else "s"
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{ending}"


def usage_text(usage: Usage) -> str:
    """`3 calls, 1,234 tokens, 0.0123 USD`; a cost that leaves calls out is `at least` so much; empty for nothing."""
    if usage.is_nothing:
        return ""
    told = [counted(usage.calls, "call")] if usage.calls else []
    told += [counted(usage.tokens, "token")] if usage.tokens else []
    told += [cost_text(usage.cost, usage.currency, usage.unpriced)] if usage.cost else []
    return ", ".join(told)


def cost_text(cost: float, currency: str, unpriced: int) -> str:
    """`0.0123 USD`, or `at least 0.0123 USD` when there were calls without a price."""
    return f"{'at least ' if unpriced else ''}{cost:.4f} {plain(currency, NAME_LENGTH)}".rstrip()


def outcome_text(outcome: Outcome) -> str:
    """An outcome as a word for people: `over_budget` is `over budget`."""
    return outcome.replace("_", " ")
