"""The workflow `prose`: a critic and a refiner for English in Markdown or plain text, and the plan that joins them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, assert_never

import msgspec

from redraft.actors.workflow.context import Context
from redraft.actors.workflow.counting import PROSE
from redraft.actors.workflow.roles import critic, refiner
from redraft.app.builtin.prose.anchors import keep_anchors
from redraft.app.builtin.prose.fixes import mend
from redraft.app.builtin.prose.masking import Fault, Finding, Judged, Prose, read_prose
from redraft.app.builtin.prose.readability import Readability, long_sentences, readability
from redraft.app.builtin.prose.running import running_words
from redraft.app.builtin.prose.spelling.corrections import find_corrections, in_english
from redraft.app.builtin.prose.spelling.lexicon import Lexicon, read_lexicon, without
from redraft.app.builtin.prose.style import LEAVE_OUT, style_findings
from redraft.app.builtin.support.options import RELEASE, read_options
from redraft.app.builtin.support.per_file import changed_files, is_folder, merged, texts_of
from redraft.events.messages.conditions import errors, plateau, score
from redraft.events.messages.content import NOTICE, Critique, Draft, Issue, Number, Revision, Severity
from redraft.events.messages.plan import Option, Plan, Repeat, Step

MARKDOWN: Final = (".md", ".markdown")

__all__ = ["ProseOptions", "prose_critic", "prose_plan", "prose_refiner"]


class ProseOptions(msgspec.Struct, frozen=True):
    """`ignore`: words that are right here, whatever the dictionary says: names, terms of the trade.

    `rewrite`: wordy phrases are replaced too, and not only spoken of.
    """

    ignore: tuple[str, ...] = ()
    rewrite: bool = False


@critic(name="prose", version=RELEASE, measures=PROSE)
def prose_critic(draft: Draft, context: Context) -> Critique:
    """Judges spelling, doubled words, wordiness, style and readability of the draft's English; options: ProseOptions.

    It counts the words of prose and what it found, and measures the reading ease where there is enough to measure.

    Without the extra `spelling` it says that spelling was not looked at. Of a draft of several files all with prose are
    judged, by their names, and each counts as much as it has words. Raises PermanentError when an option is wrong.
    """
    options = read_options(ProseOptions, context.options, "prose")
    if not is_folder(draft):
        return _critique_of(draft, options)
    said = {path: _critique_of(each, options) for path, each in prose_files(draft).items()}
    words = sum(each.measures["words"] for each in said.values())
    share = sum(each.score * each.measures["words"] for each in said.values()) / words if words else 1.0
    whole = merged(draft, said, round(share, 4))
    measures = {name: count for name, count in whole.measures.items() if name != "readability"}
    details = next((each.details for each in said.values() if each.details), {})
    return msgspec.structs.replace(whole, measures={"words": 0, "findings": 0, **measures}, details=details)


def _critique_of(draft: Draft, options: ProseOptions) -> Critique:
    reading = read_draft(draft, options)
    return critique(reading.prose, judge(reading))


def prose_files(draft: Draft) -> dict[str, Draft]:
    """Returns the files with prose, by path, each as a draft by itself."""
    texts = texts_of(draft, *MARKDOWN, ".rst", ".txt")
    kinds = {path: "text/markdown" if path.endswith(MARKDOWN) else "text/plain" for path in texts}
    return {path: Draft(draft.version, text, "", kinds[path]) for path, text in texts.items() if text.strip()}


@refiner(name="prose-fix", version=RELEASE)
def prose_refiner(draft: Draft, context: Context) -> Revision:
    """Mends what is nearly certain: misspellings and doubled words of running text; all else stays, byte by byte.

    With the option `rewrite` it makes wordy phrases plain too. The same text comes back with `exit=True` when there is
    nothing to put right. Options and errors are the critic's.
    """
    options = read_options(ProseOptions, context.options, "prose-fix")
    if not is_folder(draft):
        return _mend(draft, options)
    made = changed_files(draft, {path: _mend(each, options) for path, each in prose_files(draft).items()})
    return msgspec.structs.replace(made, exit=made.text == draft.text)


def _mend(draft: Draft, options: ProseOptions) -> Revision:
    reading = read_draft(draft, options)
    changes = list_findings(reading.prose, reading.findings, (*ERRORS, *WEAKNESSES))
    return Revision(reading.rewritten, changes, exit=reading.rewritten == draft.text)


def prose_plan(
    max_iterations: int = 5,
    threshold: float = 0.95,
    publish: Literal["file", "stdout"] = "file",
    ignore: Sequence[str] = (),
    *,
    rewrite: bool = False,
) -> Plan:
    """The plan: the source as it is, then critique and refine until good or no longer better, then publish.

    Good means a score of at least `threshold` (0..1) and no errors; a draft whose structure changed does not pass the
    gate. `max_iterations` is at least 1. `ignore` and `rewrite` are the options of both actors.
    """
    loop = Repeat(
        name="Refinement",
        until=(score >= threshold) & (errors == 0) | plateau(gain=0.001, over=2),
        max_iterations=max_iterations,
        body=(
            Step("critic", "structure", "structure", gate=True),
            Step("critic", "prose", "critique", options=_make_options(ignore, rewrite=rewrite)),
            Step("refiner", "prose-fix", "refine", options=_make_options(ignore, rewrite=rewrite)),
        ),
    )
    return Plan("prose", (Step("generator", "source", "generate"), loop, Step("publisher", publish, "publish")))


def _make_options(words: Sequence[str], *, rewrite: bool) -> dict[str, Option]:
    ignored: dict[str, Option] = {"ignore": list(words)} if words else {}
    return {**ignored, "rewrite": True} if rewrite else ignored


WEIGHTS: Final[Mapping[Fault, float]] = {
    "spelling": 1.0,
    "doubled": 0.8,
    "wordy": 0.3,
    "doubtful": 0.3,
    "plainer": 0.1,
    "style": 0.1,
    "long": 0.1,
}
PER_WORDS: Final = 100
"""Findings are counted per this number of words; a shorter text counts as this long, so one slip does not sink it."""
MELLOWNESS: Final = 8.0
"""The weight of findings per PER_WORDS words at which the score has fallen to 1/e."""
HARD: Final = 30.0
"""Reading ease from which on down a text is very hard to read (Flesch's own scale), and loses score."""
HARDSHIP: Final = 0.1
"""The deduction from the score of a text whose reading ease is 0 or less."""


def prose_score(words: int, findings: Iterable[Finding], ease: float | None) -> float:
    """The score, 0..1, of a text of `words` words with these findings; `ease` is None when it was not measured."""
    weight = math.fsum(WEIGHTS[finding.fault] for finding in findings)
    density = weight * PER_WORDS / max(words, PER_WORDS)
    hardship = 0.0 if ease is None else HARDSHIP * min(1.0, max(0.0, (HARD - ease) / HARD))
    return round(max(0.0, math.exp(-density / MELLOWNESS) - hardship), 4)


LISTED: Final = 50
"""The number of lines of a kind that a critique or a revision lists; it counts the rest."""
ERRORS: Final[tuple[Fault, ...]] = ("spelling", "doubled")
WEAKNESSES: Final[tuple[Fault, ...]] = ("wordy",)
SUGGESTIONS: Final[tuple[Fault, ...]] = ("doubtful", "plainer", "style", "long")

UNSPELLED: Final = "spelling was not looked at; install its dictionaries: pip install 'redraft[spelling]'"

_LONGEST: Final = 240


def critique(prose: Prose, judged: Judgement) -> Critique:
    """Returns the critique of a text; a text without prose has score 1 and a strength that says so."""
    measures: dict[str, Number] = {"words": judged.words, "findings": len(judged.findings)}
    if judged.readability is not None:
        measures["readability"] = round(judged.readability.ease, 2)
    if not judged.words:
        empty = "no prose to judge: the text holds no English sentence outside code and markup"
        return Critique(1.0, strengths=(empty,), measures=measures)
    unspelled = () if judged.is_spelled else (UNSPELLED,)
    return Critique(
        judged.score,
        strengths=tuple(_strengths(judged)),
        weaknesses=(*_hardness(judged.readability), *list_findings(prose, judged.findings, WEAKNESSES)),
        suggestions=(*unspelled, *list_findings(prose, judged.findings, SUGGESTIONS)),
        errors=list_findings(prose, judged.findings, ERRORS),
        measures=measures,
        issues=tuple(_issues(prose, judged.findings)),
        details={} if judged.is_spelled else {NOTICE: UNSPELLED},
    )


def list_findings(prose: Prose, findings: Sequence[Finding], faults: Sequence[Fault]) -> tuple[str, ...]:
    """A line for each finding of these faults, LISTED at most, and how many more there are."""
    chosen = [finding for finding in findings if finding.fault in faults]
    lines = [_line(prose, finding) for finding in chosen[:LISTED]]
    more = len(chosen) - LISTED
    return (*lines, f"... and {more:,} more") if more > 0 else tuple(lines)


def _line(prose: Prose, finding: Finding) -> str:
    return f"line {prose.line(finding.at)}: {_sentence(finding)}"[:_LONGEST]


def _issues(prose: Prose, findings: Sequence[Finding]) -> Iterator[Issue]:
    """Yields each listed finding with its place, and the words to put there where they are known."""
    kinds: tuple[tuple[tuple[Fault, ...], Severity], ...] = (
        (ERRORS, "error"),
        (WEAKNESSES, "warning"),
        (SUGGESTIONS, "note"),
    )
    for faults, severity in kinds:
        for finding in [each for each in findings if each.fault in faults][:LISTED]:
            end = finding.at + len(finding.found)
            is_there = prose.text[finding.at : end] == finding.found
            quote, span = (finding.found, (finding.at, end)) if is_there else ("", None)
            known = is_there and finding.fault in (*ERRORS, *WEAKNESSES)
            instead = finding.instead if known else None
            yield Issue(_line(prose, finding), quote, span, severity=severity, replacement=instead)


def _sentence(finding: Finding) -> str:
    match finding.fault:
        case "spelling" | "doubled" | "wordy":
            return f'"{finding.found}" -> "{finding.instead}"'
        case "doubtful":
            return f'"{finding.found}" may be misspelled: {finding.instead}?'
        case "plainer" if finding.instead == LEAVE_OUT:
            return f'"{finding.found}" can often be left out'
        case "plainer":
            return f'"{finding.found}" may be plainer as "{finding.instead}"'
        case "style":
            return finding.note if finding.found in finding.note else f'"{finding.found}": {finding.note}'
        case "long":
            return f'"{finding.found} ...": {finding.note}'
        case _:
            assert_never(finding.fault)


def _strengths(judged: Judgement) -> Iterator[str]:
    faults = {finding.fault for finding in judged.findings}
    for fault, praise in _PRAISE.items():
        if fault not in faults and (judged.is_spelled or fault != "spelling"):
            yield f"{praise} in {judged.words:,} words"
    if judged.readability is not None and judged.readability.ease >= 60:
        yield f"easy to read: {_describe_readability(judged.readability)}"


def _hardness(measured: Readability | None) -> Iterator[str]:
    if measured is not None and measured.ease < HARD:
        yield f"hard to read: {_describe_readability(measured)}; write shorter sentences and shorter words"


def _describe_readability(measured: Readability) -> str:
    per_sentence = measured.words / measured.sentences
    return f"reading ease {measured.ease:.0f}, grade {measured.grade:.0f}, {per_sentence:.0f} words a sentence"


_PRAISE: Final[dict[Fault, str]] = {
    "spelling": "no known misspelling",
    "doubled": "no doubled word",
    "wordy": "no wordy phrase",
}


class Reading(msgspec.Struct, frozen=True):
    """A text, its passages in English, what was found in them, and the text with what is nearly certain put right.

    `is_spelled` says whether its spelling was looked at.
    """

    prose: Prose
    judged: tuple[Judged, ...]
    findings: tuple[Finding, ...]
    rewritten: str
    is_spelled: bool


class Judgement(msgspec.Struct, frozen=True):
    """The score of a text (0..1), the number of words judged, all findings in order, and its readability.

    `is_spelled` says whether its spelling was looked at.
    """

    score: float
    words: int
    findings: tuple[Finding, ...]
    readability: Readability | None
    is_spelled: bool


def read_draft(draft: Draft, options: ProseOptions) -> Reading:
    """Reads a draft; the headings of a Markdown text are mended too."""
    return read(draft.text, options.ignore, rewrite=options.rewrite, headings=draft.media_type == "text/markdown")


def read(text: str, ignored: Collection[str] = (), *, rewrite: bool = False, headings: bool = False) -> Reading:
    """Finds what can be put right without asking, in running text and, with `headings`, in headings."""
    known = read_lexicon()
    lexicon = without(known, ignored) if known else Lexicon()
    prose = read_prose(text)
    judged = tuple(in_english(prose, lexicon))
    running = running_words(prose, judged, headings=headings)
    corrections = find_corrections(prose, judged, running, lexicon)
    mended = mend(text, judged, running, corrections.certain, rewrite=rewrite)
    findings = sorted((*mended.findings, *corrections.doubtful), key=lambda finding: finding.at)
    rewritten = keep_anchors(text, mended.text) if headings else mended.text
    return Reading(prose, judged, tuple(findings), rewritten, known is not None)


def judge(reading: Reading) -> Judgement:
    """Adds what is a matter of opinion, measures the readability, and scores the whole."""
    words = sum(len(each.words) for each in reading.judged)
    opinions = (*style_findings(reading.prose), *long_sentences(reading.prose, reading.judged))
    findings = sorted((*reading.findings, *_new(opinions, reading.findings)), key=lambda finding: finding.at)
    measured = readability(reading.prose, reading.judged)
    score = prose_score(words, findings, measured.ease if measured else None)
    return Judgement(score, words, tuple(findings), measured, reading.is_spelled)


def _new(opinions: Sequence[Finding], findings: Sequence[Finding]) -> Iterator[Finding]:
    """The opinions on places of which nothing was said yet; long sentences say nothing of their words."""
    starts = [finding.at for finding in findings]
    for opinion in opinions:
        before = bisect_left(starts, opinion.at + len(opinion.found)) - 1
        known = before >= 0 and starts[before] + len(findings[before].found) > opinion.at
        if opinion.fault == "long" or not known:
            yield opinion
