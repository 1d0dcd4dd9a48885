"""Shows the changes between two drafts as lines: removed words are `[-removed-]`, added ones `{+added+}`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, assert_never

from redraft.projections.display import plain, visible
from redraft.projections.run_views.answers import Answers
from redraft.projections.run_views.diff import Added, Kept, Line, Removed, Skipped, Word
from redraft.projections.run_views.scores_between import ScoreChange

if TYPE_CHECKING:
    from rich.text import Text


def score_lines(scores: Sequence[ScoreChange]) -> Iterator[str]:
    """Yields a line for each critic: `judge: score 6 of 10 → 8 of 10, words 310 → 290`."""
    for critic, those in groupby(scores, lambda each: each.critic):
        yield plain(f"{critic}: {', '.join(map(str, those))}")


def change_lines(line: Line | Skipped | Answers) -> Iterator[Text]:
    """Yields a line as people see it; a line for each issue that the change before answers."""
    if isinstance(line, Answers):
        yield from (_words((), "^", f" answers {issue.severity} {issue.line}") for issue in line.issues)
    else:
        yield _change_line(line)


def _change_line(line: Line | Skipped) -> Text:
    match line:
        case Kept(text=text):
            return _words((), " ", text)
        case Removed(words=words):
            return _words(words, "-")
        case Added(words=words):
            return _words(words, "+")
        case Skipped(lines=count):
            return _words((), "…", f" {count} lines are the same")
        case _:
            assert_never(line)


def _words(words: Iterable[Word], sign: str, text: str = "") -> Text:
    """A line with its sign; the words that changed in it are marked, unless all of them did."""
    from rich.text import Text

    listed = list(words)
    colour = {"-": "red", "+": "green", "^": "cyan", "…": "dim"}.get(sign, "")
    line = Text(f"{sign} {visible(text)}", style=colour)
    partly = not all(word.changed for word in listed)
    opening, closing = ("[-", "-]") if sign == "-" else ("{+", "+}")
    for word in listed:
        text = visible(word.text)
        if word.changed and partly:
            line.append(f"{opening}{text}{closing}", style="bold")
        else:
            line.append(text)
    return line
