"""Actors that no worker serves, and the command that starts one: what people are told before a run waits for them."""

from __future__ import annotations

from collections.abc import Iterable

from redraft.actors.roles import Seat
from redraft.app.deployment import open_survey
from redraft.app.settings import LOCAL, Settings
from redraft.app.staff import SHIPPED
from redraft.events.bus import work_queue
from redraft.events.errors import BusError, InputError
from redraft.events.plan import Role
from redraft.projections.plain import plain


def no_worker(role: Role, actor: str) -> str:
    """Says that no worker serves an actor, and which command starts one. The file of an actor of yours is not known."""
    target = actor if (role, actor) in SHIPPED else f"FILE.py:{plain(actor)}"
    return f"no worker serves the {role} {plain(actor)}; start one: redraft worker {target} --role {role}"


async def unserved(settings: Settings, seats: Iterable[Seat]) -> list[str]:
    """Returns a line for each of these actors that no worker serves now; none where the broker does not say."""
    if settings.bus == LOCAL:
        return []
    found: list[str] = []
    try:
        async with open_survey(settings) as survey:
            for role, actor in dict.fromkeys(seats):
                depth = await survey.queue(work_queue(role, actor))
                if depth is None or not depth.consumers:
                    found.append(no_worker(role, actor))
    except (BusError, InputError):
        return found
    return found
