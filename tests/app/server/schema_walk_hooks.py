"""Changes what schemathesis sends: nothing waits, and most of the requests name what is there.

`REDRAFT_WALKED` is JSON: for each parameter and each field of a body the values that are there. Leases and their
commands are those that earlier requests got.
"""

from __future__ import annotations

import json
import os
from typing import Any
from zlib import crc32

import schemathesis

THERE: dict[str, list[Any]] = json.loads(os.environ.get("REDRAFT_WALKED", "{}"))
LEASED: list[dict[str, Any]] = []
PLAIN = {"workflow", "brief"}
"""What a body that begins a run needs: each other field can make it wrong, so half of them have none."""

LEASE = "/api/v1/requests/lease"
FORGETS = "/api/v1/subscriptions/{name}"
"""The operation that takes away what others are to find: it names only what there is not."""


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    """Changes a request before it is sent."""
    path = case.operation.path
    for part in (case.path_parameters, case.query, case.body):
        if not isinstance(part, dict):
            continue
        chance = crc32(repr((path, sorted(map(str, part.items())))).encode())
        if "wait" in part or (path == LEASE and part is case.body):
            part["wait"] = 0
        if chance & 1 and part is case.body and PLAIN.issubset(part):
            for field in set(part) - PLAIN:
                del part[field]
        for number, field in enumerate(sorted(part)):
            known = THERE.get(_key(case.method, path, field), ())
            if known and chance >> 2 * (number % 12) & 3:
                part[field] = known[(chance >> 8) % len(known)]
    if path.startswith("/api/v1/leases/") and LEASED:
        _name_a_lease(case)


def _key(method: str, path: str, field: str) -> str:
    """The key of what is there of a field, which means different things in different places."""
    if field == "name" and method == "DELETE" and path == FORGETS:
        return "nothing"
    return f"{path.split('/')[3]}.{field}" if field == "name" else field


def _name_a_lease(case: schemathesis.Case) -> None:
    """Has most requests about leases name one that was given, and half of the answers be one."""
    chance = crc32(repr(case.body).encode())
    if chance % 8 == 0 or not isinstance(case.path_parameters, dict):
        return
    leased = LEASED[-1 - chance % min(len(LEASED), 5)]
    case.path_parameters["lease_id"] = leased["lease"]
    if case.operation.path.endswith("/answer") and chance & 16:
        given = leased["command"]["data"]
        named = {name: given["request"][name] for name in ("run", "path", "attempt")}
        draft = {name: given["draft"][name] for name in ("version", "sha256")}
        verdict = {"critic": "far", "score": (chance >> 8) % 100 / 100}
        data = {**named, "draft": draft, "critique": verdict}
        case.body = {"specversion": "1.0", "type": "outcome.critiqued.v1", "data": data}


@schemathesis.hook
def after_call(context: schemathesis.HookContext, case: schemathesis.Case, response: schemathesis.Response) -> None:
    """Remembers the leases that are given."""
    if case.operation.path == LEASE and response.status_code == 200:
        LEASED.append(response.json())


@schemathesis.check
def refused(ctx: Any, response: schemathesis.Response, case: schemathesis.Case) -> None:
    """Fails where somebody without a token is told anything but that."""
    if case.operation.path != "/health":
        assert response.status_code in (400, 401, 404, 405, 413, 414, 421, 431), response.status_code
