"""Turns what people's functions return into what is recorded, or says in one line why that cannot be.

A critic may return a Critique; a number (the score); a bool (`approved`); a text (one suggestion, without a score); a
dict, dataclass, pydantic model or msgspec struct with the fields of a critique. Its other fields are kept as `details`.
With `criteria` it needs no score, nor with `measures` or `issues`: what only counts or names issues gives neither score
nor verdict.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Final

import msgspec

from redraft.actors.editing.edits import with_text
from redraft.actors.editing.issues import locate_issues
from redraft.actors.runtime.working.returned_fields import critique_from, gather_criteria, objects_of
from redraft.actors.runtime.working.returned_values import (
    InvalidResult,
    as_float,
    as_list,
    checked_as,
    described,
    exact,
    fields_of,
    refuse_coroutine,
)
from redraft.actors.workflow.actor import Actor
from redraft.events.errors import ContentError, suggest
from redraft.events.messages.content import (
    MOST_MEASURED,
    Critique,
    Draft,
    Edit,
    Mark,
    Number,
    Receipt,
    Refusal,
    Revision,
)
from redraft.events.messages.folders import FOLDER, normal_folder
from redraft.events.messages.plan import Criterion, measure_name
from redraft.events.messages.scales import UNIT, Scale, mean_of, to_share
from redraft.events.messages.usage import MOST

_REVISION: Final = frozenset(Revision.__struct_fields__)
_APPROVED: Final = "APPROVED"
"""The text alone by which a critic approves, as agents are told to."""

_OBJECTS: Final[Mapping[str, type[msgspec.Struct]]] = {"edits": Edit, "refusals": Refusal}
"""The lists of objects of a revision."""


def text_of(returned: object, media_type: str) -> tuple[str, str]:
    """Returns the text and media type of a generator's draft. Raises InvalidResult."""
    refuse_coroutine(returned)
    match returned:
        case str():
            return exact(returned), media_type
        case Draft():
            return exact(returned.text), exact(returned.media_type)
        case _:
            raise InvalidResult(f"returned {described(returned)}, not a str or Draft")


def revision_of(returned: object, draft: Draft, critique: Critique | None = None) -> Revision:
    """Returns a refiner's text, draft, or an object with the fields of a Revision, as a revision with its whole text.

    Raises InvalidResult, and ContentError for edits that cannot be made in the draft.
    """
    refuse_coroutine(returned)
    match returned:
        case str():
            return Revision(exact(returned))
        case Draft():
            return Revision(exact(returned.text))
        case Revision(edits=(), refusals=(), saved_tokens=0) if returned.text:
            lists = {name: as_list(getattr(returned, name)) for name in ("changes", "declined")}
            return checked_as(msgspec.structs.asdict(returned) | lists, Revision, "a Revision")
        case _:
            given = fields_of(returned)
            if given is None or not given.keys() & _REVISION:
                raise InvalidResult(f"returned {described(returned)}, not a str, Draft, Revision, or its fields")
            return _revision_from(given, draft, critique, described(returned))


def _revision_from(given: Mapping[str, Any], draft: Draft, critique: Critique | None, what: str) -> Revision:
    found = {name: value for name, value in given.items() if name in _REVISION and value is not None}
    if found.get("edits") == [] and not found.get("text"):
        found["text"] = draft.text  # a list of edits in which there are none leaves the draft as it is
    found |= {name: as_list(found[name]) for name in ("changes", "declined") if name in found}
    found |= {name: objects_of(name, found[name], kind) for name, kind in _OBJECTS.items() if name in found}
    revision = checked_as(found, Revision, what)
    if not 0 <= revision.saved_tokens <= MOST:
        raise InvalidResult(f"returned {what} whose saved_tokens are no number from 0 to 10**15")
    return with_text(revision, draft.text, critique.issues if critique else ())


def in_form(revision: Revision, media_type: str) -> Revision:
    """Returns the revision with the files of its draft in their order. Raises ContentError if it is no folder's text.

    Edits that leave them in another one, as where they rename a file, are not kept beside the text.
    """
    if media_type != FOLDER:
        return revision
    text = folder_in_form(revision.text)
    return revision if text == revision.text else msgspec.structs.replace(revision, text=text, edits=())


def folder_in_form(text: str) -> str:
    """Returns the text of a draft of several files as it is recorded. Raises ContentError if it is none."""
    try:
        return normal_folder(text)
    except ContentError as error:
        raise ContentError(f"returned no draft of several files: {error}") from None


def receipt_of(returned: object, name: str) -> Receipt:
    """Returns a publisher's receipt; a publisher that says nothing has published too, at a place of its `name`.

    Raises InvalidResult.
    """
    refuse_coroutine(returned)
    match returned:
        case None:
            return Receipt(name)
        case str():
            return Receipt(exact(returned))
        case os.PathLike():
            return Receipt(os.fsdecode(returned))
        case Receipt():
            return checked_as(msgspec.structs.asdict(returned), Receipt, "a Receipt")
        case _:
            raise InvalidResult(f"returned {described(returned)}, not a Receipt, str, path or None")


def critique_of(
    actor: Actor, returned: object, scale: Scale | None = None, criteria: Sequence[Criterion] = (), text: str = ""
) -> Critique:
    """Returns a critic's critique by its name, with each score mapped from its scale to 0..1. Raises InvalidResult.

    Its issues and quotes are those of this text: raises ContentError for one whose quote is not there. The plan's
    `scale` and `criteria`, if it has any, must be those that the actor declares, if it declares any.
    """
    own = None if actor.scale == UNIT else actor.scale
    if own and scale and own != scale:
        raise InvalidResult(
            f"declares a scale of {own[0]:g} to {own[1]:g}, and the plan one of {scale[0]:g} to {scale[1]:g}"
        )
    declared = tuple(criteria) or actor.criteria
    refuse_coroutine(returned)
    match returned:
        case Critique() if not (actor.fields or returned.details) and (plain := _as_it_is(returned)):
            critique = plain
        case bool():
            return Critique(0.0, approved=returned, critic=actor.name, scored=False)
        case Real() | Decimal():
            critique = Critique(as_float(returned, "score"))
        case str() if returned.strip() == _APPROVED:
            return Critique(0.0, approved=True, critic=actor.name, scored=False)
        case str() if returned.strip():
            critique = Critique(0.0, suggestions=(exact(returned),), scored=False)
        case _:
            given = fields_of(returned)
            if given is None:
                raise InvalidResult(
                    f"returned {described(returned)}, not a Critique, a number, a bool, a text, or an object with its "
                    "fields"
                )
            given = gather_criteria(given, declared, dict(actor.fields))
            critique = critique_from(given, dict(actor.fields), described(returned))
    critique = msgspec.structs.replace(critique, critic=actor.name, scale=scale, on_scale=False)
    critique = _normalise(critique, scale or own, declared)
    return locate_issues(critique, text, [each.name for each in declared])


def _as_it_is(returned: Critique) -> Critique | None:
    """Returns the critique if each of its fields has its declared type, as is the rule; else None."""
    try:
        return checked_as(returned, Critique, "a Critique")
    except InvalidResult:
        return None


def _normalise(critique: Critique, scale: Scale | None, criteria: tuple[Criterion, ...]) -> Critique:
    if critique.confidence is not None:
        _require_in(critique.confidence, UNIT, "a confidence")
    marks = _normalise_marks(critique.criteria, criteria, scale) if critique.criteria or criteria else ()
    if marks:
        critique = msgspec.structs.replace(critique, criteria=marks)
    confidences = [each.confidence for each in marks if each.confidence is not None]
    if critique.confidence is None and confidences:
        critique = msgspec.structs.replace(critique, confidence=min(confidences))
    if critique.scored:
        on = scale or UNIT
        for each in (critique.score, *critique.samples):
            _require_in(each, on, "a score")
        samples = tuple([to_share(each, on) for each in critique.samples]) if critique.samples else ()
        return msgspec.structs.replace(critique, score=to_share(critique.score, on), samples=samples)
    if marks:
        weights = [each.weight for each in criteria]
        return msgspec.structs.replace(critique, score=mean_of([each.score for each in marks], weights), scored=True)
    return msgspec.structs.replace(critique, score=0.0, scored=False, samples=())


def _normalise_marks(marks: Sequence[Mark], criteria: tuple[Criterion, ...], scale: Scale | None) -> tuple[Mark, ...]:
    """Returns the scores of all criteria, in the order in which they are declared."""
    given = {each.name: each for each in marks}
    if len(given) < len(marks):
        raise InvalidResult("gave two scores for one criterion; give one for each")
    names = [each.name for each in criteria]
    for name in given:
        if name not in names:
            remedy = suggest(name, tuple(names)) if names else "declare it with @critic(criteria={...})"
            raise InvalidResult(f"gave a score for {name!r}, a criterion that it does not declare; {remedy}")
    found = []
    for each in criteria:
        if each.name not in given:
            raise InvalidResult(f"gave no score for {each.name}, a criterion that it declares")
        mark, of = given[each.name], each.scale or scale or UNIT
        _require_in(mark.score, of, f"{each.name} a score")
        if mark.confidence is not None:
            _require_in(mark.confidence, UNIT, f"{each.name} a confidence")
        found.append(msgspec.structs.replace(mark, score=to_share(mark.score, of)))
    return tuple(found)


def measures_of(given: Mapping[str, Number], declared: Sequence[str], recorded: Sequence[str]) -> dict[str, Number]:
    """Returns those of a critic's numbers that the plan has recorded, in that order.

    Raises InvalidResult for one that neither the actor (`declared`) nor the plan declares, and for one that is missing.
    """
    names = tuple(dict.fromkeys(map(measure_name, (*declared, *recorded))))
    for name, value in given.items():
        if name not in names:
            remedy = suggest(name, names) if names else f"declare it with @critic(measures=({name!r},))"
            raise InvalidResult(f"gave a number for {name!r}, a measure that it does not declare; {remedy}")
        if not abs(as_float(value, name)) <= MOST_MEASURED:
            raise InvalidResult(f"gave {name} as {value}; a measure is a number up to 10**15")
    for name in recorded or declared:
        if name not in given and not name.endswith("?"):
            raise InvalidResult(f"gave no number for {name}, a measure that it declares")
    return {name: given[name] for name in map(measure_name, recorded) if name in given}


def _require_in(value: float, scale: Scale, what: str) -> None:
    low, high = scale
    if not (math.isfinite(value) and low <= value <= high):
        raise InvalidResult(f"gave {what} of {value:.15g}, outside its scale of {low:g} to {high:g}")
