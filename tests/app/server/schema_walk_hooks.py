"""Changes what schemathesis sends: nothing waits, and half of the requests about a run name one that is there."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import schemathesis


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    """Changes a request before it is sent."""
    named = case.path_parameters
    if isinstance(named, dict) and "run" in named and crc32(repr(named["run"]).encode()) % 2:
        named["run"] = "last"
    for part in (case.query, case.body):
        if isinstance(part, dict) and "wait" in part:
            part["wait"] = 0


@schemathesis.check
def refused(ctx: Any, response: schemathesis.Response, case: schemathesis.Case) -> None:
    """Fails where somebody without a token is told anything but that."""
    if case.operation.path != "/health":
        assert response.status_code in (400, 401, 404, 405, 413, 414, 421, 431), response.status_code
