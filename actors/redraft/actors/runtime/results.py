"""Turns what people's functions return into what is recorded, or says in one line why that cannot be.

A critic may return a Critique; a number (the score); a bool (`approved`); a dict, dataclass, pydantic model or msgspec
struct with the fields of a critique. Its other fields are kept as `details`. With `criteria` it needs no score, nor
with `measures`: what only counts gives neither score nor verdict.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from statistics import fmean
from types import CoroutineType
from typing import Any, Final, TypeVar

import msgspec

from redraft.actors.editing.edits import with_text
from redraft.actors.editing.issues import locate_issues
from redraft.actors.workflow.roles import Actor
from redraft.events.errors import suggest
from redraft.events.messages.content import MOST_MEASURED, Critique, Detail, Draft, Mark, Number, Receipt, Revision
from redraft.events.messages.plan import Criterion, measure_name
from redraft.events.messages.scales import UNIT, Scale, to_share
from redraft.events.messages.usage import MOST

T = TypeVar("T")

_LISTS: Final = ("strengths", "weaknesses", "suggestions", "errors")
_FIELDS: Final = frozenset(Critique.__struct_fields__)
_REVISION: Final = frozenset(Revision.__struct_fields__)


class InvalidResult(Exception):
    """The function returned a value that its role does not allow."""


def text_of(returned: object, media_type: str) -> tuple[str, str]:
    """Returns the text and media type of a generator's draft. Raises InvalidResult."""
    _refuse_coroutine(returned)
    match returned:
        case str():
            return exact(returned), media_type
        case Draft():
            return exact(returned.text), exact(returned.media_type)
        case _:
            raise InvalidResult(f"returned {_describe(returned)}, not a str or Draft")


def revision_of(returned: object, draft: Draft, critique: Critique | None = None) -> Revision:
    """Returns a refiner's text, draft, or an object with the fields of a Revision, as a revision with its whole text.

    Raises InvalidResult, and ContentError for edits that cannot be made in the draft.
    """
    _refuse_coroutine(returned)
    match returned:
        case str():
            return Revision(exact(returned))
        case Draft():
            return Revision(exact(returned.text))
        case Revision(edits=(), refusals=(), saved_tokens=0) if returned.text:
            lists = {name: _as_list(getattr(returned, name)) for name in ("changes", "declined")}
            return _checked(msgspec.structs.asdict(returned) | lists, Revision, "a Revision")
        case _:
            given = _fields_of(returned)
            if given is None or not given.keys() & _REVISION:
                raise InvalidResult(f"returned {_describe(returned)}, not a str, Draft, Revision, or its fields")
            return _revision_from(given, draft, critique, _describe(returned))


def _revision_from(given: Mapping[str, Any], draft: Draft, critique: Critique | None, what: str) -> Revision:
    found = {name: value for name, value in given.items() if name in _REVISION and value is not None}
    found |= {name: _as_list(found[name]) for name in ("changes", "declined") if name in found}
    found |= {name: _objects_of(name, found[name]) for name in ("edits", "refusals") if name in found}
    revision = _checked(found, Revision, what)
    if not 0 <= revision.saved_tokens <= MOST:
        raise InvalidResult(f"returned {what} whose saved_tokens are no number from 0 to 10**15")
    return with_text(revision, draft.text, critique.issues if critique else ())


def receipt_of(returned: object, name: str) -> Receipt:
    """Returns a publisher's receipt; a publisher that says nothing has published too, at a place of its `name`.

    Raises InvalidResult.
    """
    _refuse_coroutine(returned)
    match returned:
        case None:
            return Receipt(name)
        case str():
            return Receipt(exact(returned))
        case os.PathLike():
            return Receipt(os.fsdecode(returned))
        case Receipt():
            return _checked(msgspec.structs.asdict(returned), Receipt, "a Receipt")
        case _:
            raise InvalidResult(f"returned {_describe(returned)}, not a Receipt, str, path or None")


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
    _refuse_coroutine(returned)
    match returned:
        case bool():
            return Critique(0.0, approved=returned, critic=actor.name, scored=False)
        case Real() | Decimal():
            critique = Critique(_float(returned, "score"))
        case Critique() if not (actor.fields or returned.details) and (plain := _as_it_is(returned)):
            critique = plain
        case _:
            given = _fields_of(returned)
            if given is None:
                raise InvalidResult(
                    f"returned {_describe(returned)}, not a Critique, a number, a bool, or an object with its fields"
                )
            given = _gather_criteria(given, declared, dict(actor.fields))
            critique = _critique_from(given, dict(actor.fields), _describe(returned))
    critique = msgspec.structs.replace(critique, critic=actor.name, scale=scale, on_scale=False)
    critique = _normalise(critique, scale or own, declared)
    return locate_issues(critique, text, [each.name for each in declared])


def _as_it_is(returned: Critique) -> Critique | None:
    """Returns the critique if each of its fields has its declared type, as is the rule; else None."""
    try:
        return _checked(returned, Critique, "a Critique")
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
        scores = (critique.score, *critique.samples)
        for each in scores:
            _require_in(each, scale or UNIT, "a score")
        score, *samples = (to_share(each, scale or UNIT) for each in scores)
        return msgspec.structs.replace(critique, score=score, samples=tuple(samples))
    if marks:
        weights = [each.weight for each in criteria]
        return msgspec.structs.replace(critique, score=fmean([each.score for each in marks], weights), scored=True)
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
        if not abs(_float(value, name)) <= MOST_MEASURED:
            raise InvalidResult(f"gave {name} as {value}; a measure is a number up to 10**15")
    for name in recorded or declared:
        if name not in given and not name.endswith("?"):
            raise InvalidResult(f"gave no number for {name}, a measure that it declares")
    return {name: given[name] for name in map(measure_name, recorded) if name in given}


def _require_in(value: float, scale: Scale, what: str) -> None:
    low, high = scale
    if not (math.isfinite(value) and low <= value <= high):
        raise InvalidResult(f"gave {what} of {value:g}, outside its scale of {low:g} to {high:g}")


def _fields_of(returned: object) -> dict[str, Any] | None:
    """Returns the fields of an object by name; None for one that has none, such as a list."""
    if isinstance(returned, msgspec.Struct):
        return msgspec.structs.asdict(returned)
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        return {each.name: getattr(returned, each.name) for each in dataclasses.fields(returned)}
    dump = getattr(returned, "model_dump", None)  # a pydantic model's; pydantic itself is not known here
    fields = dump() if callable(dump) and not isinstance(returned, type) else returned
    return {str(name): value for name, value in fields.items()} if isinstance(fields, Mapping) else None


def _gather_criteria(
    given: dict[str, Any], criteria: Sequence[Criterion], renamed: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the fields with criteria that stand beside the others, as in `{"accuracy": 8}`, put below `criteria`."""
    beside = [each.name for each in criteria if each.name in given and each.name not in (*_FIELDS, *renamed)]
    if not beside or given.get("criteria"):
        return given
    others = {name: value for name, value in given.items() if name not in (*beside, "criteria")}
    return {**others, "criteria": {name: given[name] for name in beside}}


def _critique_from(given: Mapping[str, Any], renamed: Mapping[str, str], what: str) -> Critique:
    """Returns the critique of these fields; those of other names become its details."""
    found: dict[str, Any] = {}
    details: dict[str, Detail] = {}
    for name, value in given.items():
        _refuse_coroutine(value, f" as {name}")
        field = renamed.get(name, name)
        if field in _LISTS:
            found[field] = [*found.get(field, ()), *_as_list(value, f"{what} with {name}")]
        elif field == "criteria":
            found[field] = _marks_of(value)
        elif field == "measures":
            found[field] = _numbers_of(value)
        elif field == "issues":
            if value:
                found[field] = _objects_of(field, value)
        elif field == "details" and isinstance(value, Mapping):
            details |= {str(key): _as_detail(each) for key, each in value.items()}
        elif field in _FIELDS and field != "details":
            found[field] = _as_number(value, name) if field in ("score", "confidence") else value
        else:
            details[name] = _as_detail(value)
    if found.get("score") is None:
        if found.get("approved") is None and not found.get("criteria") and not found.get("measures"):
            hint = "name one of them so, map yours with @critic(fields={...}), or declare @critic(criteria={...})"
            raise InvalidResult(f"returned {what} without score and approved; {hint}")
        found |= {"score": 0.0, "scored": False}
    return _checked({**found, "details": details}, Critique, what)


def _marks_of(value: object) -> list[dict[str, Any]]:
    """Returns the fields of each criterion's score, from names with numbers or objects, or from a list."""
    named = _fields_of(value)
    if named is None and isinstance(value, list | tuple):
        return [fields for each in value if (fields := _fields_of(each)) is not None]
    if named is None:
        raise InvalidResult(f"returned criteria as {_describe(value)}; give each by its name: {{'accuracy': 8}}")
    return [{"name": name, **_mark_of(name, each)} for name, each in named.items()]


def _numbers_of(value: object) -> dict[str, object]:
    """Returns measures by name: numbers of any kind, and yes or no as 1 or 0."""
    named = _fields_of(value)
    if named is None:
        raise InvalidResult(f"returned measures as {_describe(value)}; give each by its name: {{'words': 312}}")
    for name, each in named.items():
        if not isinstance(each, Real | Decimal):
            raise InvalidResult(f"gave {name} as {_describe(each)}, not a number")
    return {name: int(each) if isinstance(each, Integral) else _float(each, name) for name, each in named.items()}


def _objects_of(name: str, value: object) -> list[dict[str, Any]]:
    """Returns the fields of each object of a list, those without a value left out; a text is an issue without a place.

    Raises InvalidResult.
    """
    found = []
    for number, each in enumerate(_as_list(value, name)):
        _refuse_coroutine(each, f" in {name}")
        fields = {"text": each} if isinstance(each, str) and name == "issues" else _fields_of(each)
        if fields is None:
            raise InvalidResult(f"returned {name}[{number}] as {_describe(each)}, not an object with its fields")
        found.append({key: value for key, value in fields.items() if value is not None})
    return found


def _mark_of(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, bool) and isinstance(value, Real | Decimal):
        return {"score": _float(value, name)}
    fields = _fields_of(value)
    if fields is None:
        raise InvalidResult(f"gave {name} {_describe(value)}, not a number or an object with score")
    return {key: _as_number(each, f"{name}.{key}") for key, each in fields.items() if key != "name"}


def _as_number(value: object, what: str) -> object:
    """Returns a number of any kind as a float; anything else, a bool among it, as it is."""
    return value if isinstance(value, bool) or not isinstance(value, Real | Decimal) else _float(value, what)


def _float(value: Real | Decimal | float, what: str) -> float:
    """Returns a number as a float. Raises InvalidResult for one that a float cannot hold, such as 10**400."""
    try:
        return float(value)
    except (OverflowError, ValueError) as error:
        raise InvalidResult(f"gave {what} as a number that cannot be recorded: {error}") from None


def _as_list(value: object, what: str = "") -> list[Any]:
    """Returns the lines of a field: one text is one line, None is none."""
    if value is None:
        return []
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, str):
        return [value]
    raise InvalidResult(
        f"returned {what or 'a value'}: {_describe(value)}, where a text or a list of texts is expected"
    )


def _as_detail(value: object) -> Detail:
    """Returns a simple value as it is, a date and the like as text, a list or an object as JSON, else as `repr`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return exact(value)
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, Real | Decimal):
        return float(value) if math.isfinite(value) else str(value)
    try:
        plain = msgspec.to_builtins(value, enc_hook=str)
        return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return repr(value)


def exact(text: str) -> str:
    """Returns the text as a `str` and nothing more: libraries return kinds of text that no message can hold."""
    return str.__str__(text)


def _plain(value: object) -> object:
    """Returns a kind of text or number as a plain one. Raises TypeError for any other object."""
    match value:
        case str():
            return exact(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case _:
            raise TypeError(f"objects of type {type(value).__name__} are not supported")


def _checked(fields: object, kind: type[T], what: str) -> T:
    """Returns these fields as this type once each has its declared type. Raises InvalidResult."""
    try:
        return msgspec.convert(msgspec.to_builtins(fields, enc_hook=_plain), kind, strict=True)
    except (msgspec.MsgspecError, TypeError, UnicodeError, OverflowError) as error:
        raise InvalidResult(f"returned {what} that is wrong: {error}") from None


_PLAIN: Final = (str, int, float, tuple, list, dict, msgspec.Struct)


def _refuse_coroutine(value: object, where: str = "") -> None:
    """Raises InvalidResult for what has to be awaited first."""
    if value is None or isinstance(value, _PLAIN):
        return  # as a rule; `inspect` takes ten times as long
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if isinstance(value, CoroutineType):
            value.close()  # else Python warns about it, without saying where it came from
        kind = type(value).__name__
        remedy = "an `await` is missing: write `await` before the call, in an `async def`"
        raise InvalidResult(f"returned {'an' if kind[0] in 'aeiou' else 'a'} {kind}{where}; {remedy}")


def _describe(value: object) -> str:
    kind = type(value).__name__
    if value is None:
        return "None (is a `return` missing?)"
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
