"""What the HTTP API works with: the open runtime of its process, what it offers, and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import LocalRuntime
from redraft.app.workflows.sources import Source
from redraft.events.bus.port import Queues

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


@dataclass(frozen=True, slots=True)
class Service:
    """The parts that requests are answered with.

    `workflows` are those that may be submitted, by name. `queues` counts who serves an actor; None where nothing runs.
    A `read_only` one changes nothing. `closing` is set when the process ends: streams end then.
    """

    settings: Settings
    runtime: LocalRuntime
    workflows: Mapping[str, Source]
    queues: Queues | None
    log: FilteringBoundLogger
    read_only: bool = False
    closing: asyncio.Event = field(default_factory=asyncio.Event)


Serves: TypeAlias = NamedDependency[SkipValidation[Service]]
"""The service, as a handler gets it."""
