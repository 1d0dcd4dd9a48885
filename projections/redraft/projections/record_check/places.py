"""Checks what is recorded of places in drafts: quotes of issues, edits, and refiners held to what issues name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from redraft.events.messages import domain_events as events
from redraft.events.messages.content import Edit, Issue, Mark
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import steps_of
from redraft.events.messages.redaction import ERASED
from redraft.projections.record_check.chain import Finding, finding_at

_ITERATION: Final = re.compile(r"\[[^\[\]]*\]")


def place_faults(stream: Sequence[Recorded]) -> list[Finding]:
    """Returns the faults of issues' places and of edits. Texts that are erased or encrypted are not compared."""
    check = _Places()
    for event in stream:
        for code, message in check.take(event):
            check.findings.append(finding_at(code, event, message))
    return check.findings


class _Places:
    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._texts: dict[int, str] = {}
        self._issues: dict[int, tuple[Issue, ...]] = {}
        self._held: set[str] = set()
        """The paths, in the plan, of the refiners that may change only what issues name."""
        self._asked: dict[tuple[str, int], events.StepRequested] = {}

    def take(self, event: Recorded) -> Iterator[tuple[str, str]]:
        """Notes an event; yields the code and the explanation of each of its faults."""
        match event.data:
            case events.RunStarted(plan=plan):
                self._held = {path for path, step in steps_of(plan.steps) if step.only_issues}
            case events.StepRequested(role="refiner") as request:
                self._asked[request.path, request.attempt] = request
            case events.DraftGenerated(draft=draft) | events.DraftEdited(draft=draft):
                self._texts[draft.version] = draft.text
            case events.DraftCritiqued(draft=ref, critique=critique) | events.VerdictLate(draft=ref, critique=critique):
                self._issues[event.version] = critique.issues
                text = self._texts.get(ref.version, ERASED)
                yield from find_misplaced(critique.issues, text)
                yield from find_misquoted(critique.criteria, text)
            case events.DraftRefined() as refined:
                self._texts[refined.draft.version] = refined.draft.text
                yield from self._take_revision(refined, inherited=bool(event.repeats))
            case _:
                pass

    def _take_revision(self, data: events.DraftRefined, *, inherited: bool) -> Iterator[tuple[str, str]]:
        before, after = self._texts.get(data.before.version, ERASED), data.draft.text
        asked = self._asked.get((data.path, data.attempt))
        if ERASED in (before, after) or asked is None:
            return
        issues = [issue for version in asked.critiques for issue in self._issues.get(version, ())]
        if data.edits and (fault := edits_fault(data.edits, before, after)):
            yield "edits", f"the edits of draft {data.before.version} do not make draft {data.draft.version}: {fault}"
        known = {issue.id for issue in issues}
        named = {name for edit in data.edits for name in edit.issues} | {each.issue for each in data.refusals}
        if named - known:
            yield "edits", f"it names {len(named - known)} issues that the critiques do not have"
        is_held = _ITERATION.sub("", data.path) in self._held and not asked.advice and not inherited
        if is_held and not _left_alone(issues, before, after):
            yield "only-issues", f"draft {data.draft.version} differs where no issue of its last draft stands"


def find_misplaced(issues: Iterable[Issue], text: str) -> Iterator[tuple[str, str]]:
    """Yields a fault for each issue whose quote is not where the issue says that it is."""
    for number, issue in enumerate(issues, 1):
        if text == ERASED or (issue.span is None and not issue.quote):
            continue
        if issue.span is None or not issue.quote or text[slice(*issue.span)] != issue.quote:
            yield "issue-place", f"issue {number} quotes what does not stand there"


def find_misquoted(marks: Iterable[Mark], text: str) -> Iterator[tuple[str, str]]:
    """Yields a fault for each criterion whose quote is not in the draft, spaces and line ends aside."""
    quoting = [mark for mark in marks if mark.quote.strip() and mark.quote not in text]
    if not quoting or text == ERASED:
        return
    plain = " ".join(text.split())
    for mark in quoting:
        if " ".join(mark.quote.split()) not in plain:
            yield "criterion-quote", f"the quote for {mark.name} does not stand in the draft"


def edits_fault(edits: Sequence[Edit], before: str, after: str) -> str:
    """Returns why these edits do not make one text of the other; empty when they do."""
    places: list[tuple[int, Edit]] = []
    for number, edit in enumerate(edits, 1):
        first, last = _bounds_of_file(edit.file, before) if edit.file else (0, len(before))
        sought = re.compile(f"(?={re.escape(edit.quote)})")
        found = [each.start() for each in sought.finditer(before, first, last)] if edit.quote else []
        if len(found) != 1:
            return f"the quote of edit {number} stands there {len(found)} times"
        places.append((found[0], edit))
    done = seen = 0
    for start, edit in sorted(places, key=lambda each: each[0]):
        kept = before[done:start] + edit.replacement
        if start < done:
            return "two of them overlap"
        if not after.startswith(kept, seen):
            return f"it differs within the {len(kept)} characters from character {seen + 1} on"
        done, seen = start + len(edit.quote), seen + len(kept)
    return "" if before[done:] == after[seen:] else "it differs behind the last of them"


def _bounds_of_file(path: str, text: str) -> tuple[int, int]:
    """Returns where the lines of a file begin and end in the text of a folder; nowhere if it has no such file."""
    begun, place = -1, 0
    for line in text.split("\n"):
        if line.startswith("=== "):
            if begun >= 0:
                return begun, place
            if line[4:].split(" | ")[0] == path:
                begun = place + len(line) + 1
        place += len(line) + 1
    return (begun, len(text)) if begun >= 0 else (0, 0)


def _left_alone(issues: Iterable[Issue], before: str, after: str) -> bool:
    """Returns whether all that no issue quotes is still there, in its order; sought from the end to the beginning."""
    quoted = bytearray(len(before))
    for span in (issue.span for issue in issues if issue.span is not None):
        quoted[slice(*span)] = b"\1" * len(quoted[slice(*span)])
    kept = [each.span() for each in re.finditer(rb"\0+", quoted)]
    if kept == [(0, len(before))]:
        return before == after
    first, last = "", ""
    if kept and kept[-1][1] == len(before):
        last = before[slice(*kept.pop())]
    if kept and kept[0][0] == 0:
        first = before[slice(*kept.pop(0))]
    if not (after.startswith(first) and after.endswith(last)):
        return False
    limit = len(after) - len(last)
    for start, stop in reversed(kept):
        limit = after.rfind(before[start:stop], len(first), limit)
        if limit < 0:
            return False
    return len(first) <= limit
