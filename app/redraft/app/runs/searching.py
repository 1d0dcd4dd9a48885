"""Lists runs by filters, also by words in their briefs and drafts, and shows where those words are."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

import msgspec

from redraft.app.record.copying.with_texts import with_texts
from redraft.app.record.past import drafts_of
from redraft.app.wiring.local import LocalRuntime
from redraft.events.messages.domain_events import RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.projections.display import plain
from redraft.projections.engine.storage import Phrase
from redraft.projections.read_models.runs_query import RunFilter, RunLine, RunSort, count_runs, page_of_runs
from redraft.projections.read_models.texts import TEXTS, matches, read_search

_AROUND: Final = 60
"""Characters that are shown before and after what was found."""


class Found(msgspec.Struct, frozen=True):
    """The places of a run where the words of a search were found: its brief, and its drafts.

    The last of these texts is shown around `match`, the first phrase in it, with the text `before` and `after`.
    """

    run: str
    brief: bool
    drafts: tuple[int, ...]
    before: str
    match: str
    after: str


class Listing(msgspec.Struct, frozen=True):
    """A page of a list of runs, the number of all that match, and where these have the words of a search."""

    runs: Sequence[RunLine]
    count: int
    found: Sequence[Found] = ()


async def list_matching(
    log: LocalRuntime,
    chosen: RunFilter,
    limit: int,
    after: RunLine | None = None,
    sort: RunSort = "started",
    *,
    ascending: bool = False,
) -> Listing:
    """Returns a page of the runs that match every filter given, as `page_of_runs`, with their texts.

    A search looks at the words of all texts that are recorded now. Raises InputError for a limit below 1, or a search
    without a word.
    """
    phrases = read_search(chosen.search) if chosen.search else ()
    views = await log.models.of(TEXTS) if phrases else log.views
    page = page_of_runs(views, chosen, limit, after, sort, ascending=ascending)
    lines, count = await asyncio.gather(page, count_runs(views, chosen))
    found: list[Found] = []
    if phrases:
        hits = await matches(views, phrases, [line.run for line in lines])
        for run, those in groupby(hits, attrgetter("run")):
            events = [each for each in await log.store.entries(run) if isinstance(each, Recorded)]
            found.append(_found(run, [each.draft for each in those], events, phrases))
    return Listing(await with_texts(log.store, lines), count, found)


def _found(run: str, drafts: Sequence[int], events: Sequence[Recorded], phrases: Sequence[Phrase]) -> Found:
    """Returns where a run has the phrases; `drafts` are those with them, 0 for its brief."""
    texts = {number: draft.text for number, draft in drafts_of(events).items()}
    texts[0] = next((each.data.brief.text for each in events if isinstance(each.data, RunStarted)), "")
    before, match, after = _excerpt(texts.get(drafts[-1], ""), phrases[0])
    return Found(run, 0 in drafts, tuple(each for each in drafts if each), before, match, after)


def _excerpt(text: str, phrase: Phrase) -> tuple[str, str, str]:
    """Returns a phrase as it stands in a text, between what is before and after it; at its start if it is not found."""
    words = r"[\W_]+".join(map(re.escape, phrase.words))
    rest = r"[^\W_]*" if phrase.begins else r"(?![^\W_])"
    found = re.search(rf"(?<![^\W_]){words}{rest}", text, re.IGNORECASE)
    start, end = found.span() if found else (0, 0)
    first, last = max(start - _AROUND, 0), end + _AROUND
    before = ("…" if first else "") + plain(text[first:start])
    return before, plain(text[start:end]), plain(text[end:last]) + ("…" if last < len(text) else "")
