"""Follows the drafts of a run, and what became of each issue on the way to the draft that is worked on. Pure.

Refinement does not go straight on: of several candidates one is kept, and after a fall it goes back to an earlier
draft. An issue is raised, fixed or back in the draft that is worked on, judged by what its critic said of that draft
and of those that it was made from; what was said of other drafts says nothing about it.
"""

from __future__ import annotations

import re
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
from redraft.events.messages.lessons import cut_text
from redraft.projections.display import plain

IssueKind: TypeAlias = Literal["suggestion", "error"]
IssueStatus: TypeAlias = Literal["raised", "fixed", "returned", "dropped"]

Following: TypeAlias = (
    StepRequested | DraftGenerated | DraftRefined | DraftEdited | ApprovalRequested | LoopEnded | RunEnded
)
"""The events that say which draft is worked on; of requests those that ask a generator to write a draft anew."""

Standings: TypeAlias = dict[str, "Standing"]
"""The standing of each issue of a run, by the line of its source, kind and digest."""

MAX_KEPT: Final = 256
"""The latest drafts and critiques of a run that are remembered: what became of issues before stays as it is."""

MAX_STANDINGS: Final = 4 * MAX_KEPT
"""The number of issues above which those are forgotten that none of these critiques lists."""

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
    """The status of an issue, the draft that fixed it, and how often it came back."""

    status: IssueStatus
    fixed: int | None = None
    returns: int = 0


_RAISED: Final = Standing("raised")
_DROPPED: Final = Standing("dropped")


class RunLines(msgspec.Struct):
    """The drafts of a run: `head` is worked on, `before` says what each was made from, `texts` the first of its text.

    `rewrites` are the drafts that generators are asked to write anew, by the paths of their steps. `standings` are
    told of the head. `changes` say what made each draft from the one before.
    """

    head: int = 0
    before: dict[int, int] = {}
    texts: dict[int, int] = {}
    rewrites: dict[str, int] = {}
    verdicts: list[Verdict] = []
    standings: Standings = {}
    changes: dict[int, str] = {}


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


def follow_drafts(lines: RunLines, event: Following) -> Standings:
    """Adds the draft that an event makes, goes on to the draft that is worked on, and returns what changes.

    Of candidates that is only known once something is made from one, or it leaves its loop: until then it is the draft
    that they were made from.
    """
    match event:
        case StepRequested(path=path, critiques=critiques):
            head = _rewrite(lines, path, critiques)
        case DraftGenerated(path=path, draft=draft):
            before = lines.rewrites.pop(path, 0)
            _add_draft(lines, draft.version, before)
            head = before if before and _is_candidate(path) else draft.version
        case DraftRefined(path=path, draft=draft, before=before):
            _add_draft(lines, draft.version, before.version)
            if told := changes_text(event):
                lines.changes[draft.version] = told
            head = before.version if _is_candidate(path) else draft.version
        case DraftEdited(draft=draft, before=before):
            _add_draft(lines, draft.version, before.version)
            head = draft.version
        case ApprovalRequested(draft=ref) | LoopEnded(draft=ref):
            head = ref.version
        case RunEnded(draft=left):
            head = left.version if left else lines.head
        case _:
            assert_never(event)
    return _go_on_to(lines, head)


def keep_verdict(lines: RunLines, event: DraftCritiqued, verdict: Verdict) -> Standings:
    """Adds what a critic said, and returns what changes.

    Unless the critic chooses among candidates, its draft is the one that is worked on.
    """
    chooses = _CANDIDATE.search(event.path) is not None
    if chooses and verdict.draft not in _line_of(lines):
        changed = {issue: _DROPPED for issue in _issues_of(verdict) if issue not in lines.standings}
    else:
        changed = {} if chooses else _go_on_to(lines, verdict.draft)
        changed |= _hear(lines.standings, verdict)
    lines.verdicts = [*lines.verdicts, verdict][-MAX_KEPT:]
    lines.standings |= changed
    if len(lines.standings) > MAX_STANDINGS:
        kept = {issue for each in lines.verdicts for issue in _issues_of(each)}
        lines.standings = {issue: standing for issue, standing in lines.standings.items() if issue in kept}
    return changed


def changes_text(event: DraftRefined) -> str:
    """Returns what a refiner changed, within the bounds of a lesson: its own words or, without any, its edits."""
    said = event.changes or tuple(f"{each.quote} → {each.replacement}" for each in event.edits)
    return cut_text("; ".join(plain(each) for each in said))


def _go_on_to(lines: RunLines, head: int) -> Standings:
    """Goes on to a draft, and returns what changes: nothing where it was just made of the last one."""
    last, lines.head = lines.head, head
    is_next = lines.before.get(head) == last and not any(each.draft == head for each in lines.verdicts)
    if head == last or is_next:
        return {}
    told = lines.standings
    changed = {issue: standing for issue, standing in stand(lines).items() if told.get(issue) != standing}
    lines.standings |= changed
    return changed


def stand(lines: RunLines) -> Standings:
    """Returns what became of each issue of the text that is worked on, by all that was said of it."""
    text, line = lines.texts.get(lines.head), _line_of(lines)
    of_text = [each for each in lines.verdicts if lines.texts.get(each.draft) == text]
    found: Standings = {issue: _DROPPED for each in of_text for issue in _issues_of(each)}
    for each in of_text:
        if each.draft in line:
            found |= _hear(found, each)
    return found


def _hear(standings: Standings, verdict: Verdict) -> Standings:
    """Returns what changes with what a critic says of the draft that is worked on."""
    listed = dict.fromkeys(_issues_of(verdict))
    begin = f"{verdict.source}\n"
    changed = {
        issue: Standing("fixed", verdict.draft, before.returns)
        for issue, before in standings.items()
        if before.status in ("raised", "returned") and issue not in listed and issue.startswith(begin)
    }
    for issue in listed:
        before = standings.get(issue, _DROPPED)
        if (now := _listed_again(before)) != before:
            changed[issue] = now
    return changed


def _issues_of(verdict: Verdict) -> list[str]:
    return [f"{verdict.source}\n{kind}\n{digest}" for kind, digest in verdict.listed]


def _rewrite(lines: RunLines, path: str, critiques: tuple[int, ...]) -> int:
    """Notes the draft that a generator writes anew, and returns it: that of the critiques that it is given.

    What a loop within its own loop has finished is another text, such as the chapter before.
    """
    draft = next((each.draft for each in lines.verdicts if each.version in critiques), None)
    if draft is None:
        return lines.head
    text, within = lines.texts.get(draft), f"{loop_of(path)}["
    if not any(each.loop.startswith(within) for each in lines.verdicts if lines.texts.get(each.draft) == text):
        lines.rewrites[path] = draft
    return draft


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
        lines.changes.pop(oldest, None)


def _is_candidate(path: str) -> bool:
    """Returns whether a refiner stands in a panel, beside others whose drafts are candidates with its own."""
    around = path.rpartition("/")[0]
    return bool(around) and not around.endswith("]")
