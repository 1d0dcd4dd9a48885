"""Checks outcomes against the texts of their run before they are decided on: places of issues, and edits.

A worker of any language may send issues without their places and edits without the text that they make: both are
filled in here, and an outcome whose quotes do not stand in its draft becomes a failure. So what is recorded is proven.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from redraft.actors.deciding.state import OpenStep
from redraft.actors.editing.continuity import continue_issues, have_equals
from redraft.actors.editing.edits import check_only_issues, with_text
from redraft.actors.editing.issues import locate_issues
from redraft.events.errors import ContentError
from redraft.events.messages.commands import Critiqued, Failed, Message, OutcomeMessage, Refined
from redraft.events.messages.content import Critique, DraftRef, Issue, Revision
from redraft.events.messages.domain_events import DraftCritiqued, DraftEdited, DraftGenerated, DraftRefined
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.memory import text_memory


def needs_proof(message: Message, asked: OpenStep | None) -> bool:
    """Returns whether an outcome says something of the words of its draft; most do not, and need no texts read."""
    match message:
        case Critiqued():
            quotes = message.critique.issues or any(mark.quote for mark in message.critique.criteria)
            return bool(quotes) and asked is not None and message.draft == asked.draft
        case Refined():
            said = message.edits or message.refusals or not message.text
            return asked is not None and asked.draft is not None and bool(said or asked.step.only_issues)
        case _:
            return False


_EACH_COUNTS: Final = 5
"""The first rules by which each issue is a line of its own, and continues that which stood at its place."""

_ITERATION: Final = re.compile(r"\[[^\[\]]*\](?=[^\[\]]*$)")
"""The number of the innermost iteration in a path; without it, the path is the same in each."""

MAX_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of a run's texts that are kept, beside its newest draft; what else is needed is read again."""


class _Said(NamedTuple):
    """A critique: its event, its draft, and whether it has issues that only their places tell apart."""

    version: int
    draft: DraftRef
    have_equals: bool


class RunTexts:
    """The texts of a run's drafts and the issues of its critiques, up to the event of this `version`."""

    def __init__(self) -> None:
        self.version = 0
        self.size = 0
        self._texts: dict[DraftRef, str] = {}
        self._issues: dict[int, tuple[Issue, ...]] = {}
        self._latest: dict[str, _Said] = {}
        """The latest critique of each critic, by its path without the iteration."""
        self._forgotten = 0

    def add(self, events: Iterable[Recorded]) -> None:
        """Adds the next events of the run."""
        for event in events:
            self.version = event.version
            match event.data:
                case DraftGenerated(draft=draft) | DraftRefined(draft=draft) | DraftEdited(draft=draft):
                    self._texts[draft.ref] = draft.text
                    self.size += text_memory(draft.text)
                case DraftCritiqued(path=path, draft=ref, critique=critique):
                    self._latest[_ITERATION.sub("", path)] = _Said(event.version, ref, have_equals(critique.issues))
                    if critique.issues:
                        self._issues[event.version] = critique.issues
                        self.size += _size_of(critique.issues)
                case _:
                    pass

    async def for_answer(
        self, message: Message, asked: OpenStep, read: Callable[[int], Awaitable[Sequence[Recorded]]]
    ) -> RunTexts:
        """Returns the texts of the run, up to date, with all that an answer needs: these, or all of them, if that was
        forgotten. `read` returns the events after a version.
        """
        self.add(await read(self.version))
        self._forget()
        older = any(version <= self._forgotten for version in asked.request.critiques)
        if isinstance(message, Critiqued) and (said := self._before(message)) is not None:
            older |= said.version <= self._forgotten or said.draft not in self._texts
        if not older and (asked.draft in self._texts or not self._forgotten):
            return self
        whole = RunTexts()
        whole.add(await read(0))
        return whole

    def _forget(self) -> None:
        """Forgets the oldest texts, but for the newest one, and then the oldest issues, until the limit is kept."""
        while self.size > MAX_BYTES and len(self._texts) > 1:
            self.size -= text_memory(self._texts.pop(next(iter(self._texts))))
            self._forgotten = max(self._forgotten, 1)
        while self.size > MAX_BYTES and self._issues:
            self._forgotten = next(iter(self._issues))
            self.size -= _size_of(self._issues.pop(self._forgotten))

    def text_of(self, ref: DraftRef) -> str:
        """Returns the text of a draft. Raises ContentError for one that the run does not have."""
        if ref not in self._texts:
            raise ContentError(f"answered about draft {ref.version}, which its run does not have")
        return self._texts[ref]

    def _before(self, message: Critiqued) -> _Said | None:
        """Returns what its critic said before a critique, if either has issues that only their places tell apart."""
        said = self._latest.get(_ITERATION.sub("", message.path))
        return said if said and (said.have_equals or have_equals(message.critique.issues)) else None

    def continued(self, message: Critiqued) -> tuple[Issue, ...]:
        """Returns the issues of a critique with the ids of those that they continue, of what its critic said before."""
        issues = message.critique.issues
        if (said := self._before(message)) is None:
            return issues
        earlier = self.issues_of((said.version,))
        return continue_issues(issues, self.text_of(message.draft), earlier, self.text_of(said.draft))

    def issues_of(self, versions: Sequence[int]) -> list[Issue]:
        """Returns the issues of the critiques in these events."""
        return [issue for version in versions for issue in self._issues.get(version, ())]


def _size_of(issues: Iterable[Issue]) -> int:
    return sum(text_memory(issue.text) + text_memory(issue.quote) for issue in issues)


def proven(message: Message, asked: OpenStep, texts: RunTexts, rules: int) -> Message:
    """Returns an outcome as the texts of its run bear it out; a failure where they do not.

    Before rules 5, issues of the same words at several places were one line, and so one error, and told apart by their
    order alone.
    """
    try:
        match message:
            case Critiqued(critique=critique):
                names = [each.name for each in asked.step.criteria or critique.criteria]
                critique = locate_issues(critique, texts.text_of(message.draft), names)
                if rules < _EACH_COUNTS:
                    return replace(message, critique=_merged(critique))
                issues = texts.continued(located := replace(message, critique=critique))
                return replace(located, critique=replace(critique, issues=issues))
            case Refined() if asked.draft is not None:
                named = texts.issues_of(asked.request.critiques)
                return _proven_revision(message, asked, texts.text_of(asked.draft), named)
            case _:
                return message
    except ContentError as error:
        return _failure(message, f"{asked.request.actor} {error}") if isinstance(message, OutcomeMessage) else message


def _merged(critique: Critique) -> Critique:
    """Returns the critique with each line once, if it has issues."""
    if not critique.issues:
        return critique
    errors, suggestions = (tuple(dict.fromkeys(lines)) for lines in (critique.errors, critique.suggestions))
    return replace(critique, errors=errors, suggestions=suggestions)


def _proven_revision(message: Refined, asked: OpenStep, before: str, issues: Sequence[Issue]) -> Refined:
    said = Revision(
        *(message.text, message.changes, message.exit, message.declined),
        *(message.edits, message.refusals, message.saved_tokens),
    )
    revision = with_text(said, before, issues)
    if asked.step.only_issues and not asked.request.advice:
        check_only_issues(before, revision.text, issues)
    return replace(message, text=revision.text, declined=revision.declined, edits=revision.edits)


def _failure(message: OutcomeMessage, fault: str) -> Failed:
    return Failed(message.run, message.path, message.attempt, "invalid", fault, usage=message.usage)
