"""The OpenAPI 3.1 description: Litestar reads paths and parameters off the handlers; the structs say the answers."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from importlib.metadata import version
from typing import Any, Final, get_args, get_origin

import msgspec
from litestar import Litestar
from litestar.openapi import OpenAPIConfig
from litestar.routes import HTTPRoute

from redraft.app.contract.schemas import POINTER, schemas_of
from redraft.app.record.copying.with_texts import CommandSent
from redraft.app.server.api.events import EventPage
from redraft.app.server.problems import MEDIA_TYPE, Problem
from redraft.events.messages.commands import WORK_NAMES
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.event_names import EVENT_NAMES

DESCRIPTION: Final = OpenAPIConfig(
    title="Redraft",
    version=version("redraft"),
    description="Runs of iterative refinement: looked at, begun, steered, followed.",
    use_handler_docstrings=True,
    openapi_controller=None,
    render_plugins=(),
    path="/api/v1/schema",
)

_LOOSE: Final[Mapping[type, tuple[str, bool, Collection[type]]]] = {
    Recorded: ("data", False, tuple(EVENT_NAMES)),
    CommandSent: ("command", False, tuple(WORK_NAMES)),
    EventPage: ("events", True, (Recorded,)),
}
"""Structs with a field that holds one, or (True) many, of several others, which bear no tag of their own."""


_TOKEN: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of `redraft token create`, or a JWT of the provider. On the machine of the server "
    "none is needed until the first one is made.",
}


class Description:
    """The description of an application, made when it is first asked for."""

    def __init__(self) -> None:
        self._encoded = b""

    def encoded(self, app: Litestar, largest_draft: int) -> bytes:
        """Returns it as JSON."""
        if not self._encoded:
            self._encoded = msgspec.json.encode(_document(app, largest_draft))
        return self._encoded


def _document(app: Litestar, largest_draft: int) -> dict[str, Any]:
    document = app.openapi_schema.to_schema()
    kinds: set[type] = {Problem}
    for route in app.routes:
        if not isinstance(route, HTTPRoute):
            continue
        for handler in route.route_handlers:
            for method in handler.http_methods:
                operation = document["paths"].get(route.path_format, {}).get(method.lower())
                if operation is not None:
                    _describe(operation, handler.opt.get("answer"), handler.opt.get("also", {}), kinds)
                    if route.path_format == "/health":
                        operation["security"] = []
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    kinds |= {each for kind in kinds & _LOOSE.keys() for each in _LOOSE[kind][2]}
    for kind in kinds & _LOOSE.keys():
        schemas |= _loose_schemas(kind, largest_draft)
    schemas |= schemas_of(kinds - _LOOSE.keys(), largest_draft)
    document["components"]["securitySchemes"] = {"token": _TOKEN}
    document["security"] = [{"token": []}, {}]
    return document


def _describe(
    operation: dict[str, Any],
    kind: Any,  # noqa: ANN401 - a type, or a list of one
    also: Mapping[int, str],
    kinds: set[type],
) -> None:
    """Adds what an operation answers with, `also` by other statuses, and that whatever goes wrong is a problem."""
    operation["responses"] |= {str(status): {"description": text} for status, text in also.items()}
    for status, found in operation["responses"].items():
        if kind is not None and status.startswith("2") and status != "204":
            found["content"] = {"application/json": {"schema": _schema(kind, kinds)}}
        elif status.startswith("2") and "application/json" in found.get("content", {}):
            found["content"]["application/json"]["schema"] = {}
    operation["responses"] = {each: found for each, found in operation["responses"].items() if each.startswith("2")}
    told = {"schema": {"$ref": f"{POINTER}{Problem.__name__}"}}
    operation["responses"]["default"] = {"description": "What went wrong.", "content": {MEDIA_TYPE: told}}


def _schema(kind: Any, kinds: set[type]) -> dict[str, Any]:  # noqa: ANN401 - a type, or a list of one
    if get_origin(kind) is list:
        return {"type": "array", "items": _schema(get_args(kind)[0], kinds)}
    kinds.add(kind)
    return {"$ref": f"{POINTER}{kind.__name__}"}


def _loose_schemas(kind: type, largest_draft: int) -> dict[str, Any]:
    """Returns the schema of a struct with a field that is one of several, without those."""
    field, many, several = _LOOSE[kind]
    fields = [each for each in msgspec.structs.fields(kind) if each.name != field]
    bare = msgspec.defstruct(kind.__name__, [_field(each) for each in fields])
    found = schemas_of([bare], largest_draft)
    one = {"anyOf": [{"$ref": f"{POINTER}{each.__name__}"} for each in several]}
    properties: Any = found[kind.__name__]["properties"]
    properties[field] = {"type": "array", "items": one} if many else one
    found[kind.__name__]["description"] = inspect.cleandoc(kind.__doc__ or "")
    return found


def _field(found: msgspec.structs.FieldInfo) -> tuple[str, type] | tuple[str, type, Any]:
    return (found.name, found.type) if found.required else (found.name, found.type, found.default)
