"""The trace of a run: W3C trace contexts, and span ids that every process derives from the same facts.

The event that starts a run records the trace context that it belongs to. All spans of the run have that trace, and ids
made from the run, the path and the attempt, so that processes agree on them without talking, also after a restart.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final, Literal, TypeAlias

import msgspec

SpanKind: TypeAlias = Literal["run", "loop", "iteration", "step", "approval", "late"]

_FORM: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """A trace, a span in it, and whether the trace is sampled; ids are lower-case hex."""

    trace_id: str
    span_id: str
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """Returns the header `traceparent` that says this."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def parse_traceparent(text: str) -> TraceContext | None:
    """Returns the context of a `traceparent`; None for a text that is none."""
    found = _FORM.fullmatch(text)
    return TraceContext(found[1], found[2], bool(int(found[3], 16) & 1)) if found else None


def span_id(run: str, kind: SpanKind, path: str = "", attempt: int = 1) -> str:
    """Returns the id of a span of a run."""
    return sha256(f"{kind}\n{run}\n{path}\n{attempt}".encode()).hexdigest()[:16]


def run_context(run: str, recorded: str = "") -> TraceContext:
    """Returns the context under which a run began: `recorded` is that of its first event.

    Where that has none, the trace is derived from the run, and the run's own span is the first of it.
    """
    return parse_traceparent(recorded) or TraceContext(
        sha256(f"trace\n{run}".encode()).hexdigest()[:32], span_id(run, "run")
    )


def step_context(run: str, recorded: str, path: str, attempt: int) -> TraceContext:
    """Returns the context of one attempt at a step: what a worker does for it hangs below that span."""
    above = run_context(run, recorded)
    return TraceContext(above.trace_id, span_id(run, "step", path, attempt), above.sampled)
