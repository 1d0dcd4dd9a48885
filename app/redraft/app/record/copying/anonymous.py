"""A run as it may be shown to strangers: without the names of people, and without where its brief came from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from redraft.events.messages.domain_events import RunStarted
from redraft.events.messages.envelope import Recorded

_NOBODY: Final = frozenset({"", "client", "coordinator", "somebody", "timekeeper"})
"""The names that stand for no person: replaced, they would change names of steps that have such a word in them."""
_TEXTS: Final = frozenset({"text", "sha256"})
"""Fields that are left as they are: what was written, and its hash."""

_KNOWN_BY: Final = re.compile(r" \((token [0-9a-f]{8}|oidc [0-9a-f]{16}|link [0-9a-f]{8}|not authenticated)\)$")

_IDENTITY: Final = re.compile(r"\b(token|oidc|link) [0-9a-f]{8,16}\b")
"""How somebody is known, with what is the same in all runs of theirs."""


def without_names(events: Sequence[Recorded]) -> list[Recorded]:
    """Returns the events with `person 1` and so on for the people who began, steered or were to approve the run.

    Drafts, briefs and critiques keep their texts, whatever names stand in them; the brief no longer says its source. In
    values of the state these people's names are replaced too.
    How somebody was known is told without its id, by which they would be known again elsewhere: `person 1 (token)`.
    """
    names = _people(events)
    if not names:
        return [_without_origin(event) for event in events]
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in sorted(names, key=len, reverse=True)))
    return [_without_origin(_replaced(event, pattern, names)) for event in events]


def _people(events: Sequence[Recorded]) -> dict[str, str]:
    """Returns for each name what stands for it, numbered in the order in which they come."""
    found: dict[str, None] = {}
    for event in events:
        if isinstance(event.data, RunStarted):
            found |= dict.fromkeys(_approvers(msgspec.to_builtins(event.data.plan)))
        if _KNOWN_BY.search(event.actor) and (event.version == 1 or hasattr(event.data, "by")):
            found[_KNOWN_BY.sub("", event.actor)] = None
        by = getattr(event.data, "by", "")
        if isinstance(by, str):
            found[by] = None
    names = [name for name in found if name not in _NOBODY]
    return {name: f"person {number}" for number, name in enumerate(names, 1)}


def _approvers(plan: Any) -> list[str]:  # noqa: ANN401 - a plan as JSON has it, nested
    if isinstance(plan, list):
        return [name for each in plan for name in _approvers(each)]
    if not isinstance(plan, dict):
        return []
    own = [str(each) for each in plan.get("approvers", ())]
    return own + [name for each in plan.values() for name in _approvers(each)]


def _replaced(value: Any, pattern: re.Pattern[str], names: dict[str, str]) -> Any:  # noqa: ANN401 - any field
    match value:
        case str():
            return pattern.sub(lambda found: names[found[0]], value)
        case tuple():
            return tuple(_replaced(each, pattern, names) for each in value)
        case list():
            return [_replaced(each, pattern, names) for each in value]
        case dict():
            return {name: _replaced(each, pattern, names) for name, each in value.items()}
        case msgspec.Struct():
            fields = {name: getattr(value, name) for name in value.__struct_fields__ if name not in _TEXTS}
            return replace(value, **{name: _replaced(each, pattern, names) for name, each in fields.items()})
        case _:
            return value


def _without_origin(event: Recorded) -> Recorded:
    """Returns the event without the ids of tokens; of a brief it no longer says which file or address it came from."""
    key = getattr(event.data, "key", "")
    data = replace(event.data, key=_IDENTITY.sub(r"\1", key)) if key else event.data
    event = replace(event, actor=_IDENTITY.sub(r"\1", event.actor), data=data)
    if not isinstance(event.data, RunStarted):
        return event
    return replace(event, data=replace(event.data, brief=replace(event.data.brief, source="")))
