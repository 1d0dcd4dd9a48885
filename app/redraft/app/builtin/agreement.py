"""The critic `agreement`: how many of the drafts side by side give the same answer as this one.

Self-consistency: of several answers to one question, the one that most of them agree on (Wang et al., 2022,
https://arxiv.org/abs/2203.11171). It asks no model.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

import msgspec

from redraft.actors.roles import Context, critic
from redraft.app.builtin.gate_text import compiled
from redraft.app.builtin.options import read_options
from redraft.app.builtin.parsers import clean_line
from redraft.events.content import Critique, Draft

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
    pattern = compiled(options.answer, "agreement: option answer")
    drafts = context.beside or (draft,)
    answers = [_answer(pattern.findall(each.text)) for each in drafts]
    mine = _answer(pattern.findall(draft.text))
    if not mine:
        return Critique(0.0, errors=("no answer is found in it; it should end with a line such as Answer: 42",))
    same = answers.count(mine)
    told = f"{same} of {len(drafts)} drafts give this answer: {clean_line(mine)}"
    return Critique(same / len(drafts), strengths=(told,))


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
