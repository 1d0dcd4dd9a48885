"""Everything that is found in a text, put together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence

import msgspec

from redraft.app.builtin.prose_dictionary import spellings, without
from redraft.app.builtin.prose_finding import Finding
from redraft.app.builtin.prose_readability import Readability, long_sentences, readability
from redraft.app.builtin.prose_rewrite import rewrite
from redraft.app.builtin.prose_score import prose_score
from redraft.app.builtin.prose_spelling import in_english
from redraft.app.builtin.prose_style import style_findings
from redraft.app.builtin.prose_text import Prose, read_prose
from redraft.app.builtin.prose_words import Judged


class Reading(msgspec.Struct, frozen=True):
    """A text, its passages in English, what is surely wrong in them, and the text with that put right."""

    prose: Prose
    judged: tuple[Judged, ...]
    findings: tuple[Finding, ...]
    rewritten: str


class Judgement(msgspec.Struct, frozen=True):
    """What a text is worth (0..1), how many words were judged, all findings in order, and how hard it is to read."""

    score: float
    words: int
    findings: tuple[Finding, ...]
    readability: Readability | None


def read(text: str, ignored: Collection[str] = ()) -> Reading:
    """Finds what can be put right without asking. Raises PermanentError when codespell's dictionary is missing."""
    book = without(spellings(), ignored)
    prose = read_prose(text)
    judged = tuple(in_english(prose, book))
    rewriting = rewrite(text, judged, book)
    return Reading(prose, judged, rewriting.findings, rewriting.text)


def judge(reading: Reading) -> Judgement:
    """Adds what is a matter of opinion, measures the readability, and scores the whole."""
    words = sum(len(each.words) for each in reading.judged)
    opinions = (*style_findings(reading.prose), *long_sentences(reading.prose, reading.judged))
    findings = sorted((*reading.findings, *_new(opinions, reading.findings)), key=lambda finding: finding.at)
    measured = readability(reading.prose, reading.judged)
    score = prose_score(words, findings, measured.ease if measured else None)
    return Judgement(score, words, tuple(findings), measured)


def _new(opinions: Sequence[Finding], findings: Sequence[Finding]) -> Iterator[Finding]:
    """The opinions on places of which nothing was said yet; long sentences say nothing of their words."""
    starts = [finding.at for finding in findings]
    for opinion in opinions:
        before = bisect_left(starts, opinion.at + len(opinion.found)) - 1
        known = before >= 0 and starts[before] + len(findings[before].found) > opinion.at
        if opinion.fault == "long" or not known:
            yield opinion
