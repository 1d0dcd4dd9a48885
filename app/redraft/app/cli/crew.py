"""Which processes `redraft up` runs for some workflows: a coordinator, and workers for every actor that they name."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from redraft.actors.plan_paths import steps_in
from redraft.actors.roles import Seat
from redraft.app.builtin.options import nearest
from redraft.app.cli.supervisor import Child
from redraft.app.models import is_installed
from redraft.app.outlets import Outlets
from redraft.app.sources import own_actors, read_source
from redraft.app.staff import staff
from redraft.app.user_file import actors_in
from redraft.events.errors import ActorError, InputError


def crew_of(workflows: Sequence[str], actors: str, scale: Sequence[str], patience: float) -> list[Child]:
    """The processes, the coordinator first. `scale` are words such as `judge=3`.

    Raises InputError when a workflow cannot be read, an actor is provided by nobody or twice, or `scale` is wrong.
    """
    targets: dict[Seat, str] = {}
    for workflow in workflows:
        for seat, target in _targets(workflow, actors):
            if targets.setdefault(seat, target) != target:
                raise ActorError(f"{workflow}: another {seat[0]} {seat[1]!r} is {targets[seat]}; rename one of them")
    replicas = _replicas(scale, targets)
    start = (sys.executable, "-m", "redraft")
    common = ("--tied", "--patience", f"{patience:g}")
    workers = [
        Child(name, (*start, "worker", target, "--role", role, "--name", name, *common))
        for (role, actor), target in targets.items()
        for name in _names(f"{role}.{actor}", replicas[actor])
    ]
    return [Child("coordinator", (*start, "coordinator", *common)), *workers]


def _targets(workflow: str, actors: str) -> Iterator[tuple[Seat, str]]:
    """Each actor that a workflow needs, and what to call it on a worker's command line."""
    if workflow.endswith(".py"):
        for actor in actors_in(Path(workflow)):
            yield (actor.role, actor.name), f"{workflow}:{actor.name}"
        return
    found = read_source(workflow, actors=actors)
    staff(found.plan, found.actors, Outlets(io.StringIO(), Path.cwd()))
    own = {(actor.role, actor.name) for actor in found.actors}
    extra = {(actor.role, actor.name) for actor in own_actors(actors)}
    file = workflow.rpartition(":")[0]
    for seat in (*((step.role, step.actor) for _, step in steps_in(found.plan.steps)), *_asked_for(workflow)):
        if seat not in own:
            yield seat, seat[1]
        else:
            yield seat, f"{file if file.endswith('.py') and seat not in extra else actors}:{seat[1]}"


def _asked_for(workflow: str) -> Iterator[Seat]:
    """Who works in a shipped workflow only if `submit` asks for it: with --tests, and with --model."""
    if workflow == "code":
        yield "critic", "pytest"
        if is_installed():
            yield "refiner", "llm"


def _replicas(scale: Sequence[str], targets: dict[Seat, str]) -> dict[str, int]:
    replicas = {actor: 1 for _, actor in targets}
    for word in scale:
        actor, _, number = word.partition("=")
        if actor not in replicas:
            raise InputError(f"--scale {word}: there is no actor {actor!r}; {nearest(actor, sorted(replicas))}")
        if not number.isdecimal() or not 1 <= int(number) <= 1000:
            raise InputError(f"--scale {word}: give a number from 1 to 1000, such as {actor}=3")
        replicas[actor] = int(number)
    return replicas


def _names(name: str, replicas: int) -> list[str]:
    return [name] if replicas == 1 else [f"{name}-{number}" for number in range(1, replicas + 1)]
