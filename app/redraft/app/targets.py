"""What a worker serves: the actors that a person named on its command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from redraft.actors.roles import Actor
from redraft.app.builtin.options import nearest
from redraft.app.builtin.publishers import file_publisher
from redraft.app.outlets import Outlets
from redraft.app.staff import SHIPPED, staff
from redraft.app.user_file import actors_in
from redraft.events.errors import ActorError
from redraft.events.plan import Plan, Role, Step


def actors_for(targets: Sequence[str], role: Role | None, outlets: Outlets) -> tuple[Actor, ...]:
    """The actors that targets name, each once: `file.py:name`, `file.py` for all of it, or the name of a shipped one.

    `role` leaves out all others. Raises InputError (ActorError) when a target names nothing, nothing of this role, or
    two different actors of one role have the same name.
    """
    found: dict[tuple[Role, str], Actor] = {}
    for target in targets:
        for actor in _of_role(target, role, _named(target, outlets)):
            known = found.setdefault((actor.role, actor.name), actor)
            if known is not actor:
                raise ActorError(f"{target}: another {actor.role} named {actor.name!r} is served; leave one out")
    return tuple(found.values())


def _named(target: str, outlets: Outlets) -> tuple[Actor, ...]:
    file, colon, name = target.rpartition(":")
    if target.endswith(".py"):
        return actors_in(Path(target))
    if colon and file.endswith(".py"):
        return _in_file(file, name)
    seats = [seat for seat in SHIPPED if seat[1] == target]
    if not seats:
        shipped = sorted({name for _, name in SHIPPED})
        raise ActorError(
            f"{target} is no file of actors, such as article.py:judge, nor shipped; {nearest(target, shipped)}"
        )
    steps = tuple(Step(role, name, name) for role, name in seats)
    made = staff(Plan("shipped", steps), (), outlets)
    return tuple(_confined(actor, outlets) for actor in made)


def _confined(actor: Actor, outlets: Outlets) -> Actor:
    """The publisher `file` of a worker writes below one folder, whatever folder a request names."""
    return file_publisher(outlets.folder) if (actor.role, actor.name) == ("publisher", "file") else actor


def _in_file(file: str, name: str) -> tuple[Actor, ...]:
    """The actors of this name, or made of the function of this name."""
    there = actors_in(Path(file))
    found = [actor for actor in there if name in (actor.name, getattr(actor.function, "__name__", ""))]
    if not found:
        raise ActorError(f"{file}: there is no actor {name!r} in it; {nearest(name, [each.name for each in there])}")
    return tuple(found)


def _of_role(target: str, role: Role | None, actors: Iterable[Actor]) -> list[Actor]:
    there = list(actors)
    found = [actor for actor in there if role is None or actor.role == role]
    if not found:
        told = ", ".join(f"the {actor.role} {actor.name}" for actor in there)
        raise ActorError(f"{target}: no {role} is among {told}; name another actor, or another --role")
    return found
