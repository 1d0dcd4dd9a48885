"""The words of briefs and drafts, for full-text search: one row per text. Texts that are stored encrypted have none."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

import msgspec

from redraft.events.errors import InputError
from redraft.events.messages.domain_events import DraftEdited, DraftGenerated, DraftRefined, RunErased, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.projections.engine.projection import Change, Delete, Projection, Put, Row, Table, unchanged
from redraft.projections.engine.storage import Phrase, row_decoder
from redraft.projections.engine.views import Views

TABLE: Final = Table(
    "texts",
    {
        "run": "TEXT NOT NULL",
        "version": "INTEGER NOT NULL",
        "draft": "INTEGER NOT NULL",
        "words": "TEXT NOT NULL",
        "position": "INTEGER NOT NULL",
    },
    key=2,
    indexes={"texts_position": "(position, run)"},
    searched="words",
)
"""`draft` is 0 for the brief. What a fork repeats is found in its parent."""

LONGEST_TEXT: Final = 100_000
"""The maximum number of characters of a text that are indexed: PostgreSQL indexes at most 1 MiB of words."""

LONGEST_WORD: Final = 100
MOST_PHRASES: Final = 20
MOST_WORDS: Final = 100
"""The maximum number of words of a phrase: PostgreSQL reads a longer one word within word, until its stack is full."""

_WORD: Final = re.compile(r"[^\W_]+")
_QUOTED: Final = re.compile(r'"([^"]*)"?|(\S+)')


class Match(msgspec.Struct, frozen=True):
    """A text with the words that were looked for: a draft of a run, or its brief (0)."""

    run: str
    draft: int


def project_text(recorded: Recorded) -> Sequence[Change]:
    """Returns the row of a brief or a draft."""
    event = recorded.data
    match event:
        case RunErased():
            return (Delete("texts", (recorded.run,)),)
        case RunStarted(brief=brief):
            begin = Delete("texts", (recorded.run,))
            return (begin,) if recorded.encrypted else (begin, _row(recorded, 0, brief.text))
        case DraftGenerated() | DraftRefined() | DraftEdited() if not (recorded.encrypted or recorded.repeats):
            return (_row(recorded, event.draft.version, event.draft.text),)
        case _:
            return ()


TEXTS: Final = Projection(
    "texts",
    2,
    (TABLE,),
    project_text,
    unchanged,
    only=(RunStarted, DraftGenerated, DraftRefined, DraftEdited, RunErased),
)
"""The projection that keeps the words."""


def read_search(search: str) -> tuple[Phrase, ...]:
    """Returns what a search means: words, `"words in this order"`, and `begin*` for the beginning of a word.

    All have to be in a text. Raises InputError for a search without a word, with too many, or with too long a phrase.
    """
    found: list[Phrase] = []
    for quoted, bare in _QUOTED.findall(search):
        given = quoted or bare
        if words := _words_of(given):
            found.append(Phrase(tuple(words), given.rstrip().endswith("*")))
    if not found:
        raise InputError(f"there is no word in the search {search[:LONGEST_WORD]!r}; give one, such as tides")
    if len(found) > MOST_PHRASES:
        raise InputError(f"the search has {len(found)} words or phrases; give {MOST_PHRASES} at most")
    if (longest := max(len(each.words) for each in found)) > MOST_WORDS:
        raise InputError(f"a phrase of the search has {longest:,} words; give {MOST_WORDS} at most")
    return tuple(found)


async def matches(views: Views, phrases: Sequence[Phrase], runs: Sequence[str]) -> list[Match]:
    """Returns the texts of these runs with all phrases in them, by run, in the order in which they were made."""
    condition, words = views.matching(TABLE, phrases)
    named = msgspec.json.encode(runs).decode()
    sql = (
        f"SELECT run, draft FROM texts WHERE run IN (SELECT value FROM json_each(:runs)) AND {condition} "  # noqa: S608
        "ORDER BY run, version"
    )
    return await views.read(row_decoder(Match), sql, {"runs": named, "words": words})


def _row(recorded: Recorded, draft: int, text: str) -> Put:
    words = " ".join(_words_of(text[:LONGEST_TEXT]))[:LONGEST_TEXT]
    row: Row = {"run": recorded.run, "version": recorded.version, "draft": draft, "words": words}
    return Put("texts", row | {"position": recorded.position})


def _words_of(text: str) -> list[str]:
    """Returns the words of a text, so that both databases find the same: letters and digits, whatever their case."""
    words: list[str] = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return words if max(map(len, words), default=0) <= LONGEST_WORD else [word[:LONGEST_WORD] for word in words]
