"""Gates for a text's form: its length, words that may not be in it, patterns that must or must not be."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import re2

from redraft.actors.workflow.context import Context
from redraft.actors.workflow.roles import critic
from redraft.app.builtin.support.options import listed, read_options
from redraft.app.builtin.support.workspace import clean_line
from redraft.events.errors import PermanentError
from redraft.events.messages.content import Critique, Draft

_Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

_TOKEN: Final = re.compile(r"\w+|[^\w\s]")

_MEMORY: Final = 8 * 1024 * 1024
"""Bytes that the automaton of one pattern may take."""


class LengthOptions(msgspec.Struct, frozen=True):
    """The fewest and the most words, characters and lines that a draft may have; None: any number."""

    min_words: _Limit | None = None
    max_words: _Limit | None = None
    min_characters: _Limit | None = None
    max_characters: _Limit | None = None
    min_lines: _Limit | None = None
    max_lines: _Limit | None = None


class WordOptions(msgspec.Struct, frozen=True):
    """`words`: words or phrases that may not be in the draft, whole and in any case."""

    words: tuple[str, ...] = ()


class PatternOptions(msgspec.Struct, frozen=True):
    """Regular expressions (RE2): every one of `must` has to be found in the draft, none of `must_not` may be."""

    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()


@critic(name="length")
def length_critic(draft: Draft, context: Context) -> Critique:
    """Checks that the draft's words, characters and lines are within limits; options: LengthOptions."""
    options = read_options(LengthOptions, context.options, "length")
    text = draft.text
    counts = {"words": len(text.split()), "characters": len(text), "lines": len(text.splitlines())}
    return verdict(fault for unit, count in counts.items() if (fault := _out_of_bounds(options, unit, count)))


@critic(name="forbidden-words")
def words_critic(draft: Draft, context: Context) -> Critique:
    """Checks that none of these words is in the draft; options: WordOptions. Raises PermanentError without words."""
    words = read_options(WordOptions, context.options, "forbidden-words").words
    if not any(word.strip() for word in words):
        raise PermanentError("forbidden-words: option words is empty; write words: [delve, tapestry]")
    return verdict(f"line {line}: {each[0]!r}" for line, each in _find_phrases(words, draft.text))


@critic(name="pattern")
def pattern_critic(draft: Draft, context: Context) -> Critique:
    """Checks that some patterns are in the draft, and others are not; options: PatternOptions.

    Patterns are RE2's, which takes time in proportion to the text whatever the pattern. Raises PermanentError for one
    that RE2 cannot read, such as one that looks around or back.
    """
    options = read_options(PatternOptions, context.options, "pattern")
    must = {text: compile_pattern(text, "pattern: option must") for text in options.must}
    must_not = {text: compile_pattern(text, "pattern: option must_not") for text in options.must_not}
    if not must and not must_not:
        raise PermanentError("pattern: neither must nor must_not holds a pattern; write must: ['^# ']")
    missing = [f"no text matches {text!r}" for text, pattern in must.items() if not pattern.search(draft.text)]
    found = {text: pattern.search(draft.text) for text, pattern in must_not.items()}
    there = [
        f"line {_line(draft.text, each.start())}: {each.group()!r} matches {text!r}"
        for text, each in found.items()
        if each
    ]
    return verdict([*missing, *there])


def _find_phrases(words: Iterable[str], text: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Yields each place where one of these words and phrases stands in a text: its line, from 1, and the match.

    To search for one pattern of all words is one call in C, during which nothing else of the process runs: seconds for
    300 words in 2 MB. So only what begins as one of them does is held against those that begin so.
    """
    alike: dict[str, list[str]] = {}
    for word in filter(str.strip, words):
        first = _TOKEN.findall(word)[0]
        alike.setdefault(_key(first), []).append(r"\s+".join(map(re.escape, word.split())))
    patterns = {key: re.compile(rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)", re.IGNORECASE) for key, forms in alike.items()}
    line, end = 1, 0
    for token in _TOKEN.finditer(text):
        if token.start() < end or (pattern := patterns.get(_key(token[0]))) is None:
            continue
        if found := pattern.match(text, token.start()):
            line += text.count("\n", end, found.start())
            yield line, found
            line += found[0].count("\n")
            end = found.end()


def _key(token: str) -> str:
    """Returns a key that tokens which differ only in case share; an i with or without a dot counts as i, as in `re`."""
    return token.casefold().replace("i\u0307", "i").replace("\u0131", "i")


def compile_pattern(text: str, where: str) -> Any:  # noqa: ANN401 - the library has no public type for it
    """A pattern that is matched in linear time; raises PermanentError that says `where` the faulty one stands."""
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    options.never_nl = False
    try:
        return re2.compile(f"(?m){text}", options=options)
    except re2.error as error:
        fault = error.args[0] if error.args else error
        message = fault.decode(errors="replace") if isinstance(fault, bytes) else str(fault)
        raise PermanentError(
            f"{where}: {text!r} is not a pattern of RE2: {message}; correct it, or leave it out"
        ) from None


def verdict(faults: Iterator[str] | list[str]) -> Critique:
    """The critique of a gate: the full score without faults, else 0 and the faults."""
    lines = [clean_line(fault) for fault in faults]
    errors, more = listed(lines)
    return Critique(0.0 if lines else 1.0, errors=errors, weaknesses=more)


def _out_of_bounds(options: LengthOptions, unit: str, count: int) -> str:
    minimum, maximum = getattr(options, f"min_{unit}"), getattr(options, f"max_{unit}")
    if minimum is not None and count < minimum:
        return f"{count:,} {unit}, but at least {minimum:,} are required"
    return f"{count:,} {unit}, but at most {maximum:,} are allowed" if maximum is not None and count > maximum else ""


def _line(text: str, start: int) -> int:
    return text.count("\n", 0, start) + 1


ANSWER: Final = r"(?i)^\W*(?:the )?(?:final )?answer(?: is)?\W*:?\W*(.+)$"
"""Finds the answer in a draft's last line of this form: `Answer: 42`."""

LONGEST: Final = 1_000
"""Characters of an answer that are compared, the first: to put marks in order takes the square of their number."""

_NUMBER: Final = re.compile(r"[-+]?[$€£]?\d[\d,]*(?:\.\d+)?%?")


class AgreementOptions(msgspec.Struct, frozen=True):
    """`answer`: a regular expression (RE2) whose first group, in its last match, is a draft's answer."""

    answer: str = ANSWER


@critic(name="agreement")
def agreement_critic(draft: Draft, context: Context) -> Critique:
    """The share (0 to 1) of the drafts beside this one, itself among them, that give its answer; AgreementOptions.

    It is for the `judge` of a parallel. Answers are compared without regard to case, spaces, marks at their ends, and
    how a number is written, by their first 1,000 characters. A draft in which no answer is found scores 0.
    """
    options = read_options(AgreementOptions, context.options, "agreement")
    pattern = compile_pattern(options.answer, "agreement: option answer")
    drafts = context.beside or (draft,)
    answers = [_answer(pattern.findall(each.text)) for each in drafts]
    mine = _answer(pattern.findall(draft.text))
    if not mine:
        return Critique(0.0, errors=("no answer is found in it; it should end with a line such as Answer: 42",))
    same = answers.count(mine)
    summary = f"{same} of {len(drafts)} drafts give this answer: {clean_line(mine)}"
    return Critique(same / len(drafts), strengths=(summary,))


def _answer(found: list[object]) -> str:
    """The last of these matches as answers are compared; empty when there is none."""
    if not found:
        return ""
    last = found[-1][0] if isinstance(found[-1], tuple) else found[-1]
    text = unicodedata.normalize("NFKC", str(last)[:LONGEST]).casefold()
    text = " ".join(text.split()).strip(" .,;:!?*_`'\"“”()[]")
    bare = text.replace(" %", "%")
    if _NUMBER.fullmatch(bare):
        number = float(re.sub(r"[$€£%,]", "", bare))
        return f"{number:g}{'%' if bare.endswith('%') else ''}"
    return text
