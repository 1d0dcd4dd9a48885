"""The figures of actors, with who works for them by HTTP now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from redraft.events.messages.plan import Role
from redraft.events.presence import Presence
from redraft.projections.read_models.actor_work import ActorLine


def with_workers(
    lines: Sequence[ActorLine], present: Mapping[tuple[Role, str], Sequence[Presence]]
) -> list[dict[str, Any]]:
    """Returns the fields of each line, and `by_http`: who works for its actor, and since when."""
    return [{**asdict(each), "by_http": present.get((each.role, each.actor), ())} for each in lines]
