"""Finds the prose in a Markdown text: markdown-it-py reads the structure, and its inline rules note what they consume.

markdown-it gives lines for blocks but no offsets for what stands inside them, so each inline rule that consumes
something that is not prose is wrapped to note where that starts and ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias, cast

import msgspec
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, autolink, backtick, entity, html_inline, image, link
from markdown_it.token import Token

Kind: TypeAlias = Literal["paragraph", "heading", "cell", "quotation"]
Rule: TypeAlias = Callable[[StateInline, bool], bool]

SPECIALS = "`[<&!"
MOST_SPECIALS = 20_000
_SPANS = "redraft"
_TARGET = re.compile(r"(?<=\])(?:\[[^\[\]\n]*\]|\([^()\n]*\))")
"""Matches a link's target: `(url)` or `[label]` right after `]`, whether or not this file defines the label."""

_LABEL = re.compile(r"\[[^\[\]]{1,99}\](?!\(|\[[^\]])")
"""Bracketed words, which would turn into a reference if they were changed into the label of one."""

_CODE_TAGS = frozenset({"code", "kbd", "samp", "tt", "pre", "var", "script", "style"})


class Hidden(msgspec.Struct, frozen=True):
    """A part of a block's content that is not prose. `soft`: markup that a word may touch, such as `[` of a link."""

    start: int
    end: int
    soft: bool = False


class Block(msgspec.Struct, frozen=True):
    """A paragraph, heading, table cell or quoted paragraph: its first line (from 0), its content as markdown-it has it,
    what to hide."""

    line: int
    kind: Kind
    content: str
    hidden: tuple[Hidden, ...]


def read_blocks(text: str) -> Iterator[Block]:
    """The blocks of a text that hold prose, in order; code, raw HTML, and reference definitions are in none of them.

    A heading that is underlined counts as a cell: it cannot change its length.
    """
    parser = _parser()
    env: dict[str, object] = {}
    before = ""
    quotations = 0
    for token in parser.parse(text, env):
        if token.type in {"blockquote_open", "blockquote_close"}:
            quotations += token.nesting
        if token.type == "inline" and token.map is not None:
            kind = "quotation" if quotations else _kind(before)
            yield Block(token.map[0], kind, token.content, _find_hidden(parser, token, env))
        before = "setext" if token.type == "heading_open" and token.markup in {"=", "-"} else token.type


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.inline.ruler.enableOnly(
        ["text", "escape", "backticks", "link", "image", "autolink", "html_inline", "entity"]
    )
    parser.inline.ruler2.enableOnly([])
    for name, rule in _HARD.items():
        parser.inline.ruler.at(name, _note_spans(rule))
    parser.inline.ruler.at("html_inline", _note_spans(html_inline, soft=True))
    parser.inline.ruler.at("link", _note_link)
    parser.inline.ruler.at("image", _note_image)
    return parser


def _kind(opened: str) -> Kind:
    match opened:
        case "heading_open":
            return "heading"
        case "setext" | "th_open" | "td_open":
            return "cell"
        case _:
            return "paragraph"


def _find_hidden(parser: MarkdownIt, token: Token, env: dict[str, object]) -> tuple[Hidden, ...]:
    content = token.content
    specials = sum(map(content.count, SPECIALS))
    if not specials:
        return ()
    if specials > MOST_SPECIALS:  # nobody's prose, and the parser would need minutes for megabytes of it
        return (Hidden(0, len(content)),)
    spans: list[Hidden] = []
    parser.inline.parse(content, parser, {**env, _SPANS: spans}, [])
    targets = (Hidden(*found.span(), soft=True) for found in _TARGET.finditer(content))
    labels = (Hidden(*found.span()) for found in _LABEL.finditer(content)) if env.get("references") else ()
    return (*targets, *spans, *_between_code_tags(content, spans), *labels)


def _between_code_tags(content: str, spans: list[Hidden]) -> Iterator[Hidden]:
    opened, start = "", 0
    for span in spans:
        tag = content[span.start : span.end].lower()
        name = tag.strip("</>").partition(" ")[0]
        if not opened and tag.startswith(f"<{name}") and name in _CODE_TAGS:
            opened, start = name, span.start
        elif opened and tag.startswith(f"</{opened}"):
            yield Hidden(start, span.end)
            opened = ""


def _spans_of(state: StateInline) -> list[Hidden]:
    return cast("list[Hidden]", state.env[_SPANS])


def _note_spans(rule: Rule, *, soft: bool = False) -> Rule:
    def note(state: StateInline, silent: bool) -> bool:
        start = state.pos
        ate = rule(state, silent)
        if ate and not silent:
            _spans_of(state).append(Hidden(start, state.pos, soft))
        return ate

    return note


def _note_link(state: StateInline, silent: bool) -> bool:
    """Hides a link's brackets and target; all of a link whose text is also the label that its target is found by."""
    start = state.pos
    if silent or state.src[start] != "[":
        return link(state, silent)
    label_end = state.md.helpers.parseLinkLabel(state, start, True)
    if not link(state, silent):
        return False
    rest = state.src[label_end : state.pos]
    if rest in {"]", "][]"}:
        _spans_of(state).append(Hidden(start, state.pos))
    else:
        _spans_of(state).extend((Hidden(start, start + 1, soft=True), Hidden(label_end, state.pos, soft=True)))
    return True


def _note_image(state: StateInline, silent: bool) -> bool:
    """Hides the whole image; its description is parsed apart, with offsets of its own, which are dropped."""
    start, noted = state.pos, len(_spans_of(state))
    ate = image(state, silent)
    if ate and not silent:
        _spans_of(state)[noted:] = [Hidden(start, state.pos)]
    return ate


_HARD: dict[str, Rule] = {"backticks": backtick, "autolink": autolink, "entity": entity}
