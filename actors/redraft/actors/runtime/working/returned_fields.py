"""Reads the fields of what critics and refiners return: criteria, measures, issues and edits, each in several forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, Final, get_args

import msgspec

from redraft.actors.runtime.working.returned_values import (
    InvalidResult,
    as_detail,
    as_float,
    as_list,
    as_number,
    checked_as,
    described,
    fields_of,
    refuse_coroutine,
)
from redraft.actors.values import is_one_of, shown
from redraft.events.errors import suggest
from redraft.events.messages.content import Critique, Detail, Issue, Mark, Severity
from redraft.events.messages.plan import Criterion

_LISTS: Final = ("strengths", "weaknesses", "suggestions", "errors")
_SAYING: Final = ("criteria", "measures", "issues")
"""The fields by which a critic says something without a score."""

_FIELDS: Final = frozenset(Critique.__struct_fields__)

_NEAR: Final = 0.75
"""How similar an unknown field is to one that is missing, so that it counts as misspelt; see `difflib`."""


def gather_criteria(given: dict[str, Any], criteria: Sequence[Criterion], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Returns the fields with criteria that stand beside the others, as in `{"accuracy": 8}`, put below `criteria`."""
    beside = [each.name for each in criteria if each.name in given and each.name not in (*_FIELDS, *renamed)]
    if not beside or given.get("criteria"):
        return given
    others = {name: value for name, value in given.items() if name not in (*beside, "criteria")}
    return {**others, "criteria": {name: given[name] for name in beside}}


def critique_from(given: Mapping[str, Any], renamed: Mapping[str, str], what: str) -> Critique:
    """Returns the critique of these fields; those of other names become its details."""
    found: dict[str, Any] = {}
    details: dict[str, Detail] = {}
    for name, value in given.items():
        refuse_coroutine(value, f" as {name}")
        field = renamed.get(name, name)
        if field in _LISTS:
            found[field] = [*found.get(field, ()), *as_list(value, f"{what} with {name}")]
        elif field == "criteria":
            found[field] = _marks_of(value)
        elif field == "measures":
            found[field] = _numbers_of(value)
        elif field == "issues":
            if value:
                found[field] = [_known_severity(each) for each in objects_of(field, value, Issue)]
        elif field == "details" and isinstance(value, Mapping):
            details |= {str(key): as_detail(each) for key, each in value.items()}
        elif field in _FIELDS and field != "details":
            found[field] = as_number(value, name) if field in ("score", "confidence") else value
        else:
            details[name] = as_detail(value)
    if found.get("score") is None:
        if found.get("approved") is None and not any(found.get(name) for name in _SAYING):
            hint = "name one of them so, map yours with @critic(fields={...}), or declare @critic(criteria={...})"
            raise InvalidResult(f"returned {what} without score and approved; {hint}")
        found |= {"score": 0.0, "scored": False}
    return checked_as({**found, "details": details}, Critique, what)


def _marks_of(value: object) -> list[dict[str, Any]]:
    """Returns the fields of each criterion's score, from names with numbers or objects, or from a list."""
    named = fields_of(value)
    if named is None and isinstance(value, list | tuple):
        return [_spelled(fields, Mark, "criteria") for each in value if (fields := fields_of(each)) is not None]
    if named is None:
        raise InvalidResult(f"returned criteria as {described(value)}; give each by its name: {{'accuracy': 8}}")
    return [{"name": name, **_mark_of(name, each)} for name, each in named.items()]


def _numbers_of(value: object) -> dict[str, object]:
    """Returns measures by name: numbers of any kind, and yes or no as 1 or 0."""
    named = fields_of(value)
    if named is None:
        raise InvalidResult(f"returned measures as {described(value)}; give each by its name: {{'words': 312}}")
    named = {name: each for name, each in named.items() if each is not None}  # what could not be counted
    for name, each in named.items():
        if not isinstance(each, Real | Decimal):
            raise InvalidResult(f"gave {name} as {described(each)}, not a number")
    return {name: int(each) if isinstance(each, Integral) else as_float(each, name) for name, each in named.items()}


def objects_of(name: str, value: object, kind: type[msgspec.Struct]) -> list[dict[str, Any]]:
    """Returns the fields of each object of a list, those without a value left out; a text is an issue without a place.

    Raises InvalidResult, also for a field that is nearly one of this kind's.
    """
    found = []
    for number, each in enumerate(as_list(value, name)):
        refuse_coroutine(each, f" in {name}")
        fields = {"text": each} if isinstance(each, str) and name == "issues" else fields_of(each)
        if fields is None:
            raise InvalidResult(f"returned {name}[{number}] as {described(each)}, not an object with its fields")
        spelled = _spelled(fields, kind, f"{name}[{number}]")
        found.append({key: value for key, value in spelled.items() if value is not None})
    return found


def _spelled(fields: dict[str, Any], kind: type[msgspec.Struct], where: str) -> dict[str, Any]:
    """Returns the fields. Raises InvalidResult for an unknown one that is nearly one of this kind's which is missing.

    Others may stand beside those of this kind, as in objects that serve also something else.
    """
    missing = [name for name in kind.__struct_fields__ if name not in fields]
    for name in fields:
        if name not in kind.__struct_fields__ and (close := get_close_matches(name, missing, n=1, cutoff=_NEAR)):
            raise InvalidResult(f"returned {where} with {name!r}, which is no field of it; did you mean {close[0]}?")
    return fields


def _known_severity(issue: dict[str, Any]) -> dict[str, Any]:
    severity = issue.get("severity", "error")
    if not is_one_of(severity, get_args(Severity)):
        remedy = suggest(str(severity), get_args(Severity), "write error, warning or note")
        raise InvalidResult(f"returned an issue whose severity is {shown(severity)}; {remedy}")
    return issue


def _mark_of(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, bool) and isinstance(value, Real | Decimal):
        return {"score": as_float(value, name)}
    fields = fields_of(value)
    if fields is None:
        raise InvalidResult(f"gave {name} {described(value)}, not a number or an object with score")
    spelled = _spelled(fields, Mark, f"criteria.{name}")
    return {key: as_number(each, f"{name}.{key}") for key, each in spelled.items() if key != "name"}
