"""Follows the drafts of a run, and what became of each issue on the way to the draft that is worked on. Pure.

Refinement does not go straight on: of several candidates one is kept, and after a fall it goes back to an earlier
draft. An issue is raised, fixed or back in the draft that is worked on, judged by what its critic said of that draft
and of those that it was made from; what was said of other drafts says nothing about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from redraft.events.messages.domain_events import (
    ApprovalRequested,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftRefined,
    LoopEnded,
    RunEnded,
    StepRequested,
)

IssueKind: TypeAlias = Literal["suggestion", "error"]
IssueStatus: TypeAlias = Literal["raised", "fixed", "returned", "dropped"]

Following: TypeAlias = (
    StepRequested | DraftGenerated | DraftRefined | DraftEdited | ApprovalRequested | LoopEnded | RunEnded
)
"""The events that say which draft is worked on; of requests those that ask a generator to write a draft anew."""

IssueId: TypeAlias = tuple[str, IssueKind, str]
"""An issue of a run: its source, kind and digest."""

MAX_KEPT: Final = 256
"""The latest drafts and critiques of a run that are remembered: what became of issues before stays as it is."""

_CANDIDATE: Final = re.compile(r"\[\d+\]$")
"""The end of the path of a critic that chooses among candidates; `judge[edit1]` judges a person's edit again."""


class Verdict(msgspec.Struct, frozen=True, array_like=True):
    """The issues that a critic listed of a draft: their kinds and digests. `version` is that of its event."""

    source: str
    draft: int
    listed: tuple[tuple[IssueKind, str], ...]
    version: int = 0
    loop: str = ""


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """What became of an issue, the draft that fixed it, and how often it came back."""

    status: IssueStatus
    fixed: int | None = None
    returns: int = 0


_RAISED: Final = Standing("raised")
_DROPPED: Final = Standing("dropped")


class RunLines(msgspec.Struct):
    """The drafts of a run: `head` is worked on, `before` says what each was made from, `texts` the first of its text.

    `rewrites` are the drafts that generators are asked to write anew, by the paths of their steps. `standings` are
    those of the issues of these verdicts, as they were told last.
    """

    head: int = 0
    before: dict[int, int] = {}
    texts: dict[int, int] = {}
    rewrites: dict[str, int] = {}
    verdicts: list[Verdict] = []
    standings: list[tuple[IssueId, Standing]] = []


_DECODER: Final = msgspec.json.Decoder(RunLines)


def decode_lines(text: str) -> RunLines:
    """Returns what `encode_lines` wrote."""
    return _DECODER.decode(text)


def encode_lines(lines: RunLines) -> str:
    """Returns the drafts of a run as JSON."""
    return msgspec.json.encode(lines).decode()


def text_of(lines: RunLines, draft: int) -> int:
    """Returns the first draft of the text of a draft; one of which nothing is known follows the draft before it."""
    if draft not in lines.texts:
        _add_draft(lines, draft, draft - 1)
    return lines.texts[draft]


def loop_of(path: str) -> str:
    """Returns the path of the loop around a step; empty outside of loops."""
    return path.rpartition("/")[0].rpartition("[")[0]


def follow_drafts(lines: RunLines, event: Following) -> None:
    """Adds the draft that an event makes, and goes on to the draft that is worked on from then on.

    Of candidates that is only known once something is made from one, or it leaves its loop: until then it is the draft
    that they were made from.
    """
    match event:
        case StepRequested(path=path, critiques=critiques):
            _rewrite(lines, path, critiques)
        case DraftGenerated(path=path, draft=draft):
            before = lines.rewrites.pop(path, 0)
            _add_draft(lines, draft.version, before)
            lines.head = before if before and _is_candidate(path) else draft.version
        case DraftRefined(path=path, draft=draft, before=before):
            _add_draft(lines, draft.version, before.version)
            lines.head = before.version if _is_candidate(path) else draft.version
        case DraftEdited(draft=draft, before=before):
            _add_draft(lines, draft.version, before.version)
            lines.head = draft.version
        case ApprovalRequested(draft=ref) | LoopEnded(draft=ref):
            lines.head = ref.version
        case RunEnded(draft=left):
            lines.head = left.version if left else lines.head
        case _:
            assert_never(event)


def _rewrite(lines: RunLines, path: str, critiques: tuple[int, ...]) -> None:
    """Notes the draft that a generator writes anew: that of the critiques that it is given.

    What a loop within its own loop has finished is another text, such as the chapter before.
    """
    draft = next((each.draft for each in lines.verdicts if each.version in critiques), None)
    if draft is None:
        return
    text, within = lines.texts.get(draft), f"{loop_of(path)}["
    lines.head = draft
    if not any(each.loop.startswith(within) for each in lines.verdicts if lines.texts.get(each.draft) == text):
        lines.rewrites[path] = draft


def keep_verdict(lines: RunLines, event: DraftCritiqued, verdict: Verdict) -> None:
    """Adds what a critic said; unless it chooses among candidates, its draft is the one that is worked on."""
    lines.verdicts = [*lines.verdicts, verdict][-MAX_KEPT:]
    if _CANDIDATE.search(event.path) is None:
        lines.head = verdict.draft


def move_standings(lines: RunLines) -> Iterator[tuple[IssueId, Standing]]:
    """Yields the issues of the text that is worked on of which something else became, and remembers that."""
    told, now = dict(lines.standings), _standings(lines)
    lines.standings = list(now.items())
    yield from ((issue, standing) for issue, standing in now.items() if told.get(issue) != standing)


def _standings(lines: RunLines) -> dict[IssueId, Standing]:
    """Returns what became of each issue of the text that is worked on."""
    text, line = lines.texts.get(lines.head), _line_of(lines)
    of_text = [each for each in lines.verdicts if lines.texts.get(each.draft) == text]
    found: dict[IssueId, Standing] = {(each.source, *issue): _DROPPED for each in of_text for issue in each.listed}
    unfixed: dict[str, set[IssueId]] = {}
    for each in of_text:
        if each.draft not in line:
            continue
        listed = {(each.source, *issue) for issue in each.listed}
        for issue in unfixed.get(each.source, set()) - listed:
            found[issue] = Standing("fixed", each.draft, found[issue].returns)
        for issue in listed:
            found[issue] = _listed_again(found[issue])
        unfixed[each.source] = listed
    return found


def _listed_again(before: Standing) -> Standing:
    match before.status:
        case "dropped":
            return _RAISED
        case "fixed":
            return Standing("returned", None, before.returns + 1)
        case _:
            return before


def _line_of(lines: RunLines) -> set[int]:
    """Returns the draft that is worked on, and those that it was made from."""
    line, draft = set[int](), lines.head
    while draft and draft not in line:
        line.add(draft)
        draft = lines.before.get(draft, 0)
    return line


def _add_draft(lines: RunLines, draft: int, before: int) -> None:
    lines.before[draft] = before
    lines.texts[draft] = lines.texts.get(before, draft)
    if len(lines.before) > MAX_KEPT:
        oldest = min(lines.before)
        del lines.before[oldest], lines.texts[oldest]


def _is_candidate(path: str) -> bool:
    """Returns whether a refiner stands in a panel, beside others whose drafts are candidates with its own."""
    around = path.rpartition("/")[0]
    return bool(around) and not around.endswith("]")
