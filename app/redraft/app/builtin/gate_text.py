"""Gates for a text's form: its length, words that may not be in it, patterns that must or must not be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import re2

from redraft.actors.roles import Context, critic
from redraft.app.builtin.options import read_options
from redraft.app.builtin.parsers import clean_line
from redraft.app.builtin.summary import listed
from redraft.events.content import Critique, Draft
from redraft.events.errors import PermanentError

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
    """Whether the draft's words, characters and lines are within limits; options: LengthOptions."""
    options = read_options(LengthOptions, context.options, "length")
    text = draft.text
    counts = {"words": len(text.split()), "characters": len(text), "lines": len(text.splitlines())}
    return verdict(fault for unit, count in counts.items() if (fault := _out_of_bounds(options, unit, count)))


@critic(name="forbidden-words")
def words_critic(draft: Draft, context: Context) -> Critique:
    """Whether none of these words is in the draft; options: WordOptions. Raises PermanentError without words."""
    words = read_options(WordOptions, context.options, "forbidden-words").words
    if not any(word.strip() for word in words):
        raise PermanentError("forbidden-words: option words names none; write words: [delve, tapestry]")
    return verdict(f"line {line}: {each[0]!r}" for line, each in _said(words, draft.text))


@critic(name="pattern")
def pattern_critic(draft: Draft, context: Context) -> Critique:
    """Whether patterns are found in the draft, and others are not; options: PatternOptions.

    Patterns are RE2's, which takes time in proportion to the text whatever the pattern. Raises PermanentError for one
    that RE2 cannot read, such as one that looks around or back.
    """
    options = read_options(PatternOptions, context.options, "pattern")
    must = {text: compiled(text, "pattern: option must") for text in options.must}
    must_not = {text: compiled(text, "pattern: option must_not") for text in options.must_not}
    if not must and not must_not:
        raise PermanentError("pattern: neither must nor must_not holds a pattern; write must: ['^# ']")
    missing = [f"nothing is like {text!r}" for text, pattern in must.items() if not pattern.search(draft.text)]
    found = {text: pattern.search(draft.text) for text, pattern in must_not.items()}
    there = [
        f"line {_line(draft.text, each.start())}: {each.group()!r} is like {text!r}"
        for text, each in found.items()
        if each
    ]
    return verdict([*missing, *there])


def _said(words: Iterable[str], text: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Yields each place where one of these words and phrases stands in a text: its line, from 1, and the match.

    To search for one pattern of all words is one call in C, during which nothing else of the process runs: seconds for
    300 words in 2 MB. So only what begins as one of them does is held against those that begin so.
    """
    alike: dict[str, list[str]] = {}
    for word in filter(str.strip, words):
        first = _TOKEN.findall(word)[0]
        alike.setdefault(_key(first), []).append(r"\s+".join(map(re.escape, word.split())))
    patterns = {key: re.compile(rf"(?<!\w)(?:{'|'.join(said)})(?!\w)", re.IGNORECASE) for key, said in alike.items()}
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
    """The same for tokens that are alike in any case: both i without its own dot, as regular expressions have it."""
    return token.casefold().replace("i\u0307", "i").replace("\u0131", "i")


def compiled(text: str, where: str) -> Any:  # noqa: ANN401 - the library has no public type for it
    """A pattern that is matched in linear time; raises PermanentError that says `where` the faulty one stands."""
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    options.never_nl = False
    try:
        return re2.compile(f"(?m){text}", options=options)
    except re2.error as error:
        fault = error.args[0] if error.args else error
        said = fault.decode(errors="replace") if isinstance(fault, bytes) else str(fault)
        raise PermanentError(f"{where}: {text!r} is no pattern of RE2: {said}; mend it, or leave it out") from None


def verdict(faults: Iterator[str] | list[str]) -> Critique:
    """The critique of a gate: the full score without faults, else 0 and the faults."""
    lines = [clean_line(fault) for fault in faults]
    errors, more = listed(lines)
    return Critique(0.0 if lines else 1.0, errors=errors, weaknesses=more)


def _out_of_bounds(options: LengthOptions, unit: str, count: int) -> str:
    least, most = getattr(options, f"min_{unit}"), getattr(options, f"max_{unit}")
    if least is not None and count < least:
        return f"{count:,} {unit}, and at least {least:,} are due"
    return f"{count:,} {unit}, and at most {most:,} are allowed" if most is not None and count > most else ""


def _line(text: str, start: int) -> int:
    return text.count("\n", 0, start) + 1
