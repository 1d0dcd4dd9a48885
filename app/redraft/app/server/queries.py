"""Query parameters that a path does not have, or that are given more often than it takes them."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

from litestar import Litestar, Request
from litestar.enums import ParamType
from litestar.routes import HTTPRoute

from redraft.actors.values import shown
from redraft.app.server.problems import Refused


async def refuse_unknown(request: Request[Any, Any, Any]) -> None:
    """Raises Refused for a parameter that is misspelt or doubled, which Litestar ignores."""
    given = Counter(name for name, _ in request.query_params.multi_items())
    if not given:
        return
    known = _parameters(request.app)[request.scope["path_template"], request.method]
    for name, times in given.items():
        if name not in known:
            there = f"there are {', '.join(sorted(known))}" if known else "there is none"
            raise Refused(400, "parameters", f"{shown(name)} is no parameter of this path; {there}")
        if times > 1 and not known[name]:
            raise Refused(400, "parameters", f"{name} is given {times} times; give it once")


@lru_cache(1)  # a process serves one
def _parameters(app: Litestar) -> dict[tuple[str, str], dict[str, bool]]:
    """Returns the query parameters of each path and method, each with whether it may be repeated."""
    return {
        (route.path_format, method): {
            each.field_alias: each.is_sequence
            for each in model.expected_query_params
            if each.param_type is ParamType.QUERY
        }
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for method, (_, model) in route.route_handler_map.items()
    }
