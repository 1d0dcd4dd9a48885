"""Carries the identity of issues from draft to draft, where several are of the same words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from redraft.actors.editing.issues import MAX_ISSUES, identities, identity
from redraft.events.messages.content import Issue

_MADE: Final = re.compile("[0-9a-f]{12}")
_EQUALS: Final = 100
"""The most issues of the same words that are told apart by their places; further ones are by their order."""

_NEAR: Final = 60
"""The number of characters on each side of a place by which it is known again."""


def have_equals(issues: Sequence[Issue]) -> bool:
    """Returns whether several of these issues are of the same words, or one is told apart from an earlier such one.

    It may be so, too, of one with a place whose quote is not filled in yet.
    """
    words = [identity(issue) for issue in issues]
    told_apart = (_MADE.fullmatch(issue.id) and issue.id != made for issue, made in zip(issues, words, strict=True))
    unknown = (issue.span is not None and not issue.quote for issue in issues)
    return len({*words}) < len(words) or any(told_apart) or any(unknown)


def continue_issues(issues: Sequence[Issue], text: str, earlier: Sequence[Issue], before: str) -> tuple[Issue, ...]:
    """Returns the issues of a text with the ids of those of the text before that they continue.

    Of several of the same words, each continues the one whose place is most like its own, in what stands around it; of
    more than there were, the others are new. An id that the critic gave stays.
    """
    were, now = _by_words(earlier), _by_words(issues)
    given = {issue.id: issue.id for issue in issues}
    taken = given.keys() - {issue.id for group in now.values() for issue in group}
    compared = _Texts(before, text)
    for words, group in now.items():
        ids = _continued(were.get(words, ()), group, compared)
        used = taken | {*ids.values()}
        free = (each for each in identities(group[0], 2 * MAX_ISSUES) if each not in used)
        given |= {issue.id: ids.get(number) or next(free) for number, issue in enumerate(group)}
    return tuple([replace(issue, id=given[issue.id]) for issue in issues])


def _by_words(issues: Iterable[Issue]) -> Mapping[str, list[Issue]]:
    """Returns the issues whose id is made of their words, by that of the first of these words."""
    found: dict[str, list[Issue]] = {}
    for issue in issues:
        if _MADE.fullmatch(issue.id) and issue.id in identities(issue, _EQUALS):
            found.setdefault(identity(issue), []).append(issue)
    return found


def _continued(were: Sequence[Issue], group: Sequence[Issue], texts: _Texts) -> dict[int, str]:
    """Returns the ids that issues of the same words continue, by their numbers in the group."""
    if len(were) == len(group) == 1:
        return {0: were[0].id}
    pairs = [(*texts.unlikeness(one, other), i, j) for i, one in enumerate(were) for j, other in enumerate(group)]
    found: dict[int, str] = {}
    met: set[int] = set()
    for *_, i, j in sorted(pairs):
        if i not in met and j not in found:
            met.add(i)
            found[j] = were[i].id
    return found


class _Texts:
    """Two texts, of which one was made from the other."""

    def __init__(self, before: str, after: str) -> None:
        self._before, self._after = before, after

    @cached_property
    def _start(self) -> int:
        """The length of what they have in common at their beginning."""
        return _alike(self._before, self._after)

    @cached_property
    def _end(self) -> int:
        return _alike(self._before[::-1], self._after[::-1])

    def unlikeness(self, one: Issue, other: Issue) -> tuple[int, int]:
        """Returns how unlike the place of an issue in the first text is to that of another in the second; least first.

        What stands around them counts, and where that is equal, whether what is before or behind them is unchanged.
        """
        if one.span is None or other.span is None:
            return 0, 0
        (a, b), (c, d) = one.span, other.span
        left = _alike(self._before[max(0, a - _NEAR) : a][::-1], self._after[max(0, c - _NEAR) : c][::-1])
        right = _alike(self._before[b : b + _NEAR], self._after[d : d + _NEAR])
        behind = len(self._before) - a
        in_start = a == c and b <= self._start
        in_end = behind == len(self._after) - c and behind <= self._end
        return -left - right, -in_start - in_end


def _alike(one: str, other: str) -> int:
    """Returns with how many equal characters two texts begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))
