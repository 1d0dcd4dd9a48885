"""For any text: what is masked stays, a second refinement changes nothing, nothing raises, and time is linear."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redraft.app.builtin.prose.actors import critique, judge, read
from redraft.app.builtin.prose.masking import MARKUP, MASK, Prose
from redraft.app.builtin.prose.structure import find_differences

FRAGMENTS = (
    "teh ", "teh", "Teh", "TEH", "the the ", "the", "The ", "that ", "to ", "in order to ", "in\norder to ",
    "in order ", "due to the fact that ", "prior to ", "on a daily basis ", "utilize ", "atleast ", "teh-teh", "a", "A",
    "\u00e9", "\u00df",
    "`teh`", "`", "``", "```\n", "~~~", "\n", "\n\n", "\r\n", "\r", "> ", "- ", "1. ", "* ", "    ", "\t", " ", "  ",
    "[teh](teh)", "[teh]", "[the]", "[teh]: teh\n", "[the]: teh\n", "[a][teh]", "![teh](teh)", "<teh>", "<b>", "</b>",
    "<!-- teh -->", "<div>\n", "<code>", "</code>", "&teh;", "&amp;", "\\", "|", "|-|-|\n", "| teh | `a\\|b` |\n",
    "---\n", "+++\n", "a: teh\n", "===\n", "*", "_", "**", "#", "# ", "{{ teh }}", "{%", "https://teh.x ", "x@teh.y ",
    "\0", "\x1e", "\x0b", "\x0c", "\x85", "\u2028", '"', "\u2019", "\ud800",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=30).map("".join)


def hidden(prose: Prose) -> list[str]:
    return [prose.text[slice(*found.span())] for found in re.finditer(f"[{MASK}{MARKUP}]+", prose.masked)]


@given(TEXTS)
def test_offsets_and_line_breaks_hold(text: str) -> None:
    prose = read(text).prose
    assert len(prose.masked) == len(text)
    assert all(
        seen in {own, MASK, MARKUP} or (own, seen) == (MASK, "\ufffd")
        for own, seen in zip(text, prose.masked, strict=True)
    )
    assert [own for own in text if own in "\r\n"] == [seen for seen in prose.masked if seen in "\r\n"]


@given(TEXTS)
def test_what_is_masked_stays_and_a_second_refinement_changes_nothing(text: str) -> None:
    first = read(text)
    second = read(first.rewritten)
    assert second.rewritten == first.rewritten
    assert "".join(hidden(first.prose)) == "".join(hidden(second.prose))
    at = 0
    for part in hidden(first.prose):
        at = first.rewritten.index(part, at) + len(part)


@given(TEXTS)
def test_any_text_has_a_score_and_the_same_one_each_time(text: str) -> None:
    first, second = (critique(reading.prose, judge(reading)) for reading in (read(text), read(text)))
    assert first == second
    assert 0.0 <= first.score <= 1.0


@given(TEXTS)
def test_refining_never_lowers_the_score_and_leaves_no_error(text: str) -> None:
    reading = read(text)
    before, after = judge(reading), judge(read(reading.rewritten))
    assert not [each for each in after.findings if each.fault in {"spelling", "doubled"}]
    assert critique(reading.prose, after).errors == ()
    assert after.score >= before.score


@given(TEXTS)
@example("teh teh [the]: teh\n")
def test_no_refinement_is_held_back_by_the_gate(text: str) -> None:
    assert find_differences(text, read(text, headings=True).rewritten) == []


@pytest.mark.parametrize(
    "part",
    [
        "[", "![", "[a](", "]", "`", "` ", "*a", "_a", "<", "<a ", "<code>", "<!--", "&", "\\", '"a ', "\u201c'", "> ",
        "- ", "|", "a'", "a-", "!", ". ", "{{", "a@", "in order ", "teh ", "the\n", "\t", "\n",
    ],
)  # fmt: skip
def test_hostile_texts_are_read_in_linear_time(part: str) -> None:
    """A quadratic step would need minutes for these 200 KB; there is nothing to measure."""
    text = part * (200_000 // len(part))
    reading = read(text)
    assert 0.0 <= judge(reading).score <= 1.0
    assert len(reading.prose.masked) == len(text)
