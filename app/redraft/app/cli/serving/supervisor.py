"""Several processes on one machine: each is started again when it dies or hangs, all of them write one log, all end
together."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
from asyncio import SubprocessTransport
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import msgspec
from structlog.typing import FilteringBoundLogger

from redraft.actors.plans.paths import steps_in
from redraft.actors.workflow.actor import ActorKey
from redraft.app.builtin.support.options import nearest
from redraft.app.cli.serving.child_output import ChildOutput
from redraft.app.cli.shared.signals import Interrupts
from redraft.app.models.configuration import is_installed
from redraft.app.process.health import alive_beside
from redraft.app.telemetry.sdk import own_port
from redraft.app.workflows.actor_registry import build_actor_registry
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.app.workflows.sources import own_actors, read_source
from redraft.app.workflows.user_file import actors_in
from redraft.events.errors import ActorError, InputError
from redraft.projections.display import visible

SHORTEST: Final = 0.5
LONGEST: Final = 30.0
"""Seconds between two starts of a process that dies again and again."""

SOUND: Final = 30.0
"""A process that lived for at least this number of seconds is started again at once."""

KILLED_AFTER: Final = 5.0
"""Seconds that processes which were told to stop at once have for it."""

HOPELESS: Final = frozenset({2, 5})
"""Exit codes at the first start that nothing will change: wrong input, and servers that were tried for long enough."""

HUNG: Final = 12
"""A process whose file was not touched between this number of looks in a row hangs, and is killed."""

LOOKING: Final = 5.0
"""Seconds between two looks."""


class Child(msgspec.Struct, frozen=True):
    """A process: what it is called in the log, its command line, and variables of its own."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = {}


class Supervisor:
    """Runs children. Their standard error becomes lines of `stream`: each begins with the name of its process or, where
    they are JSON, names it already. Each gets the path of a health file in `folder`, which is checked
    every `looking` seconds.
    """

    def __init__(
        self,
        children: Sequence[Child],
        environment: Mapping[str, str],
        stream: TextIO,
        log: FilteringBoundLogger,
        folder: Path,
        *,
        as_json: bool,
        looking: float = LOOKING,
    ) -> None:
        self._children = children
        self._environment = dict(environment)
        self._stream = stream
        self._log = log
        self._json = as_json
        self._health = {child.name: folder / str(number) for number, child in enumerate(children)}
        self._looking = looking
        self._width = max(len(child.name) for child in children)
        self._running: dict[str, SubprocessTransport] = {}
        self._draining = asyncio.Event()
        self._code = 0

    async def run(self, signals: Interrupts) -> int:
        """Runs all until a signal came, or one could not do anything from the start; gives the exit code.

        The first signal lets each end what it does, the second stops them.
        """
        async with asyncio.TaskGroup() as group:
            for child in self._children:
                group.create_task(self._keep_running(child))
            guard = asyncio.create_task(self._guard(signals))
            await self._draining.wait()
            for process in self._running.values():
                _drain(process)
        guard.cancel()
        return self._code

    async def _guard(self, signals: Interrupts) -> None:
        await signals.first
        self._log.info("draining", processes=len(self._running))
        self._draining.set()
        await signals.second
        self._code = 128 + signals.number
        self._tell(signal.SIGTERM)
        await asyncio.sleep(KILLED_AFTER)
        self._tell(signal.SIGKILL)

    def _tell(self, number: int) -> None:
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    async def _keep_running(self, child: Child) -> None:
        clock = asyncio.get_running_loop().time
        wait, first = SHORTEST, True
        while not self._draining.is_set():
            began = clock()
            code = await self._once(child)
            if self._draining.is_set():
                return
            if first and code in HOPELESS:
                self._log.error("cannot start", died=child.name, code=code)
                self._code = code
                self._draining.set()
                return
            wait = SHORTEST if clock() - began > SOUND else min(wait * 2, LONGEST)
            self._log.warning("died, starts again", died=child.name, code=code, seconds=wait)
            first = False
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._draining.wait()

    async def _once(self, child: Child) -> int:
        """Runs the process to its end, and kills it when cancelled; gives its exit code, negative for a signal."""
        health = self._health[child.name]
        alive_beside(health).unlink(missing_ok=True)
        command = (*child.command, "--health-file", str(health))
        process, output = await asyncio.get_running_loop().subprocess_exec(
            lambda: ChildOutput(partial(self._write, child.name)),
            *command,
            stdout=None,
            env={**self._environment, **child.environment},
            start_new_session=True,
        )
        self._running[child.name] = process
        watching = asyncio.create_task(self._watch(child.name, process, alive_beside(health)))
        if self._draining.is_set():
            _drain(process)
        try:
            await output.wait()
            code = process.get_returncode()
            assert code is not None  # noqa: S101 - it has ended
            return code
        finally:
            watching.cancel()
            del self._running[child.name]
            process.close()

    async def _watch(self, name: str, process: SubprocessTransport, alive: Path) -> None:
        """Kills the process, and what it started, when its file is there and nobody touches it any more.

        Looks are counted, not seconds: after a pause of the whole machine all files are old.
        """
        seen, looks = 0, 0
        while looks < HUNG:
            await asyncio.sleep(self._looking)
            touched = _read_touch_time(alive)
            looks = looks + 1 if touched == seen and touched else 0
            seen = touched
        self._log.error("hangs, killed", hung=name, pid=process.get_pid(), seconds=HUNG * self._looking)
        with suppress(ProcessLookupError):
            os.killpg(process.get_pid(), signal.SIGKILL)

    def _write(self, name: str, line: str) -> None:
        text = _as_json(name, line) if self._json else f"{name:<{self._width}} | {visible(line)}"
        with suppress(OSError, ValueError):
            self._stream.write(f"{text}\n")
            self._stream.flush()


def _read_touch_time(path: Path) -> int:
    """Returns the time at which the file was last touched; 0 when there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _drain(process: SubprocessTransport) -> None:
    """Ends its standard input, which it takes for the first signal."""
    if (pipe := process.get_pipe_transport(0)) is not None:
        pipe.close()


def _as_json(name: str, line: str) -> str:
    """A line of the log as it is, and any other as one."""
    with suppress(ValueError, RecursionError):
        if isinstance(json.loads(line), dict):
            return line
    return json.dumps({"process": name, "event": line}, ensure_ascii=False)


def processes_for(
    workflows: Sequence[str], actors: str, scale: Sequence[str], patience: float, *, serve: bool = False
) -> list[Child]:
    """The processes, the coordinator first; with `serve` the HTTP API too. `scale` are words such as `judge=3`.

    Raises InputError when a workflow cannot be read, an actor is provided by nobody or twice, or `scale` is wrong.
    """
    targets: dict[ActorKey, str] = {}
    for workflow in workflows:
        for key, target in _targets(workflow, actors):
            if targets.setdefault(key, target) != target:
                raise ActorError(f"{workflow}: another {key[0]} {key[1]!r} is {targets[key]}; rename one of them")
    replicas = _replicas(scale, targets)
    start = (sys.executable, "-m", "redraft")
    common = ("--tied", "--patience", f"{patience:g}")
    workers = [
        Child(name, (*start, "worker", target, "--role", role, "--name", name, *common))
        for (role, actor), target in targets.items()
        for name in _names(f"{role}.{actor}", replicas[actor])
    ]
    children = [Child("coordinator", (*start, "coordinator", *common)), *workers]
    if serve:
        files = ("--actors", actors) if actors else ()
        children.append(Child("serve", (*start, "serve", *workflows, *files, *common)))
    return [
        msgspec.structs.replace(each, environment=own_port(number, os.environ)) for number, each in enumerate(children)
    ]


def _targets(workflow: str, actors: str) -> Iterator[tuple[ActorKey, str]]:
    """Each actor that a workflow needs, and what to call it on a worker's command line."""
    if workflow.endswith(".py"):
        for actor in actors_in(Path(workflow)):
            yield (actor.role, actor.name), f"{workflow}:{actor.name}"
        return
    found = read_source(workflow, actors=actors)
    build_actor_registry(found.plan, found.actors, ActorEnvironment(io.StringIO(), Path.cwd()))
    own = {(actor.role, actor.name) for actor in found.actors}
    extra = {(actor.role, actor.name) for actor in own_actors(actors)}
    file = workflow.rpartition(":")[0]
    for key in (*((step.role, step.actor) for _, step in steps_in(found.plan.steps)), *_list_optional_actors(workflow)):
        if key not in own:
            yield key, key[1]
        else:
            yield key, f"{file if file.endswith('.py') and key not in extra else actors}:{key[1]}"


def _list_optional_actors(workflow: str) -> Iterator[ActorKey]:
    """Returns the actors of a shipped workflow that only --tests or --model of `submit` ask for."""
    if workflow == "code":
        yield "critic", "pytest"
        if is_installed():
            yield "refiner", "llm"


def _replicas(scale: Sequence[str], targets: dict[ActorKey, str]) -> dict[str, int]:
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
