"""Masking: what is not prose is hidden, offsets and line breaks stay, and line numbers are those of an editor."""

from __future__ import annotations

import pytest

from redraft.app.builtin.prose.masking import MARKUP, MASK, Prose, read_prose


def shown(text: str) -> str:
    """The text with what is hidden as `_`."""
    return read_prose(text).masked.replace(MASK, "_").replace(MARKUP, "_")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a `b` c", "a ___ c"),
        ("a ``b ` c`` d", "a _________ d"),
        ("a `b c", "a _b c"),
        ("[a](b) c", "_a____ c"),
        ('[a](<b c> "d") e', "_a____________ e"),
        ("[a *b* `c`](d)", "_a *b* _______"),
        ("[a][b]\n\n[b]: c", "_a____\n\n____ _"),
        ("[a][]\n\n[a]: c", "_____\n\n____ _"),
        ("[a] b\n\n[a]: c", "___ b\n\n____ _"),
        ("[not a link] b", "[not a link] b"),
        ("![a](b) c", "_______ c"),
        ("<http://a.b> c", "____________ c"),
        ("see http://a.b, x", "see ___________ x"),
        ("mail a@b.c now", "mail _____ now"),
        ("a <b>c</b> d", "a ___c____ d"),
        ("a <code>c d</code> e", "a ________________ e"),
        ("a <!-- b --> c", "a __________ c"),
        ("a &amp; b", "a _____ b"),
        ("a {{ b }} c", "a _______ c"),
        ("# a #", "_ a _"),
        ("a\n===", "a\n___"),
        ("- a\n  b", "_ a\n  b"),
        ("1. a", "__ a"),
        ("> a\n> b\nc", "_ a\n_ b\nc"),
        ("```x\na\n```\nb", "____\n_\n___\nb"),
        ("a\n\n    b\n\nc", "a\n\n    _\n\nc"),
        ("<p>\na\n</p>\n\nb", "___\n_\n____\n\nb"),
        ("| a | b |\n|---|---|\n| `c` | d |", "_ a _ b _\n_________\n_ ___ _ d _"),
        ("| a | b |\n|---|---|\n| `c\\|b` | b |", "_ a _ b _\n_________\n_ ______ _ _ _"),
        ("---\na: b\n---\nc", "___\n__ _\n___\nc"),
        ('+++\na = "b"\n+++\nc', "___\n_ _ ___\n___\nc"),
        ("---\n\na\n\n---\nb", "___\n\na\n\n___\nb"),
        ("a\r\nb\rc\nd", "a\r\nb\rc\nd"),
        ("\x0b\n[a]: b\nc", "_\n[a]: b\nc"),
    ],
)
def test_what_is_not_prose_is_hidden(text: str, seen: str) -> None:
    assert shown(text) == seen


def test_words_may_touch_markup_but_not_code() -> None:
    assert read_prose("[a](b)`c`").masked == f"{MARKUP}a{MARKUP * 4}{MASK * 3}"


def test_passages_tell_paragraphs_headings_and_cells_apart() -> None:
    prose = read_prose("# a\nb\n\n| c |\n|---|\n| d |\n")
    assert [(prose.text[each.start : each.end], each.kind) for each in prose.passages] == [
        ("a", "heading"),
        ("b", "paragraph"),
        ("c", "cell"),
        ("d", "cell"),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_an_editor_does(end: str) -> None:
    prose: Prose = read_prose(end.join(("a", "", "b\x0c\u2028c", "d")))
    assert [prose.line(prose.text.index(bus_message)) for bus_message in "abcd"] == [1, 3, 3, 4]
