"""Checks outcomes against the texts of their run before they are decided on: places of issues, and edits.

A worker of any language may send issues without their places and edits without the text that they make: both are
filled in here, and an outcome whose quotes do not stand in its draft becomes a failure. So what is recorded is proven.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from redraft.actors.deciding.state import OpenStep
from redraft.actors.editing.edits import check_only_issues, with_text
from redraft.actors.editing.issues import locate_issues
from redraft.events.errors import ContentError
from redraft.events.messages.commands import Critiqued, Failed, Message, OutcomeMessage, Refined
from redraft.events.messages.content import Draft, DraftRef, Issue, Revision
from redraft.events.messages.domain_events import DraftCritiqued, DraftEdited, DraftGenerated, DraftRefined
from redraft.events.messages.envelope import Recorded


def needs_proof(message: Message, asked: OpenStep | None) -> bool:
    """Returns whether an outcome says something of the words of its draft; most do not, and need no texts read."""
    match message:
        case Critiqued():
            return bool(message.critique.issues) and asked is not None and message.draft == asked.draft
        case Refined():
            said = message.edits or message.refusals or not message.text
            return asked is not None and asked.draft is not None and bool(said or asked.step.only_issues)
        case _:
            return False


def proven(message: Message, asked: OpenStep, events: Sequence[Recorded]) -> Message:
    """Returns an outcome as these events of its run bear it out; a failure where they do not."""
    try:
        match message:
            case Critiqued(critique=critique):
                text = _text_of(events, message.draft)
                names = [criterion.name for criterion in asked.step.criteria]
                return replace(message, critique=locate_issues(critique, text, names))
            case Refined() if asked.draft is not None:
                return _proven_revision(message, asked, _text_of(events, asked.draft), events)
            case _:
                return message
    except ContentError as error:
        return _failure(message, f"{asked.request.actor} {error}") if isinstance(message, OutcomeMessage) else message


def _proven_revision(message: Refined, asked: OpenStep, before: str, events: Sequence[Recorded]) -> Refined:
    issues = _issues_of(events, asked.request.critiques)
    said = Revision(
        *(message.text, message.changes, message.exit, message.declined),
        *(message.edits, message.refusals, message.saved_tokens),
    )
    revision = with_text(said, before, issues)
    if asked.step.only_issues and not asked.request.advice:
        check_only_issues(before, revision.text, issues)
    return replace(message, text=revision.text, declined=revision.declined)


def _text_of(events: Sequence[Recorded], ref: DraftRef) -> str:
    for event in events:
        match event.data:
            case DraftGenerated(draft=Draft() as draft) | DraftRefined(draft=draft) | DraftEdited(draft=draft):
                if draft.ref == ref:
                    return draft.text
            case _:
                pass
    raise ContentError(f"answered about draft {ref.version}, which its run does not have")


def _issues_of(events: Sequence[Recorded], versions: Sequence[int]) -> list[Issue]:
    said = (events[version - 1].data for version in versions)
    return [issue for data in said if isinstance(data, DraftCritiqued) for issue in data.critique.issues]


def _failure(message: OutcomeMessage, fault: str) -> Failed:
    return Failed(message.run, message.path, message.attempt, "invalid", fault, usage=message.usage)
