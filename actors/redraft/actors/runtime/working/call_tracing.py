"""Traces the calls of a worker: what a function does within its call hangs below the span of its step."""

from __future__ import annotations

from contextvars import Context
from typing import Protocol

from redraft.actors.workflow.actor import Actor
from redraft.events.messages.commands import OutcomeMessage, Work
from redraft.events.messages.envelope import Origin


class CallSpan(Protocol):
    """The span of one call."""

    @property
    def context(self) -> Context:
        """The context in which the function runs, and in which the span is the current one."""
        ...

    def end(self, outcome: OutcomeMessage | None) -> None:
        """Ends the span with the outcome; None for a call that was abandoned."""
        ...


class CallTracer(Protocol):
    """Begins a span for each call."""

    def start(self, actor: Actor, work: Work, origin: Origin) -> CallSpan:
        """Begins the span of a call for a request, whose message had this origin."""
        ...
