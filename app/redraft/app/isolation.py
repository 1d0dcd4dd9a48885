"""Actors in processes of their own: what hangs or crashes there is killed at its deadline, and takes nobody along.

A process loads the actor from the file that the worker was started with, and serves one request at a time. It is kept
for the next one, unless it had to be killed.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

import msgspec

from redraft.actors.perform import Call, Calling, failed, with_usage
from redraft.actors.roles import Actor
from redraft.actors.worker import PROCESSES
from redraft.app.builtin.command_run import how_it_ended
from redraft.app.isolation_frames import TOLD, Ask, Done, Load, Ready, Refused, Used, frame, received
from redraft.events.codec import decode_message, encode_message
from redraft.events.commands import Critiqued, Failed, Generated, OutcomeMessage, Published, Refined, Work
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.domain_events import FailureKind
from redraft.events.errors import ActorError, CodecError
from redraft.events.plan import Role
from redraft.events.usage import Usage

STARTING: Final = 60.0
"""Seconds that a process has to load its actor."""

_SECRET: Final = frozenset({"REDRAFT_STORE", "REDRAFT_BUS"})
"""Settings that may hold passwords, and that no actor needs."""

_ANSWERS: Final[dict[Role, type[OutcomeMessage]]] = {
    "generator": Generated,
    "critic": Critiqued,
    "refiner": Refined,
    "publisher": Published,
}


class Isolation:
    """The processes of a worker's actors. `limit` is the largest draft in bytes."""

    def __init__(self, limit: int = MAX_DRAFT_BYTES) -> None:
        self._limit = limit
        self._pools: dict[tuple[Role, str], _Pool] = {}

    async def prepare(self, actors: Iterable[Actor]) -> None:
        """Starts a process for each actor that is isolated. Raises ActorError where that cannot be."""
        for actor in actors:
            if actor.isolation == "process":
                try:
                    _require_top_level(actor)
                    await self._pool(actor).prepare()
                except ActorError as error:
                    raise ActorError(f"the {actor.role} {actor.name} cannot be isolated: {error}") from None

    def begin(self, actor: Actor, work: Work, over: Callable[[], None], alone: bool) -> Calling:
        """Begins a call in a process; one that is carried out `alone` fails as lost when it dies or hangs.

        The function of an actor that cannot be loaded a second time runs here.
        """
        if actor.isolation == "none" and not (_file(actor) or _is_shipped(actor)):
            return Call(actor, work, over)
        return _Call(self._pool(actor), actor, work, over, self._limit, alone=alone)

    def _pool(self, actor: Actor) -> _Pool:
        return self._pools.setdefault((actor.role, actor.name), _Pool(actor))

    async def close(self) -> None:
        """Ends all processes."""
        for pool in self._pools.values():
            await pool.close()


@asynccontextmanager
async def open_isolation(actors: Iterable[Actor], limit: int = MAX_DRAFT_BYTES) -> AsyncIterator[Isolation]:
    """Processes for these actors, until the end of the block. Raises ActorError for one that cannot be isolated."""
    isolation = Isolation(limit)
    try:
        await isolation.prepare(actors)
        yield isolation
    finally:
        await isolation.close()


class _Call:
    """A request that is carried out in a process. `over` is told, once, when it has ended or its deadline has come."""

    __slots__ = ("_actor", "_alone", "_limit", "_over", "_pool", "_task", "_used", "_work")

    def __init__(
        self, pool: _Pool, actor: Actor, work: Work, over: Callable[[], None], limit: int, *, alone: bool
    ) -> None:
        self._pool = pool
        self._actor = actor
        self._work = work
        self._over: Callable[[], None] | None = over
        self._limit = limit
        self._alone = alone
        self._used = Usage()
        self._task = asyncio.create_task(self._carried_out())
        self._task.add_done_callback(self._ended)

    def outcome(self, limit: int = MAX_DRAFT_BYTES) -> OutcomeMessage:
        """Returns the outcome of a call that is over; the limit is known to the process."""
        return with_usage(self._task.result(), self._used, self._actor, self._work.request)

    def abandon(self) -> asyncio.Task[Any]:
        """Kills the process; nobody is told. Returns what can be waited for until it is gone."""
        self._over = None
        self._task.cancel()
        return self._task

    def _ended(self, task: asyncio.Task[OutcomeMessage]) -> None:
        if self._over is not None:
            self._over()

    async def _carried_out(self) -> OutcomeMessage:
        timeout = self._work.request.timeout
        try:
            async with self._pool.child(fresh=self._alone) as child:
                try:
                    async with asyncio.timeout(timeout):
                        return await self._answer(child)
                except TimeoutError:
                    child.kill()
                    return self._failed("timeout", f"took longer than {timeout:g} s, and its process was killed")
                except (EOFError, OSError, msgspec.MsgspecError, UnicodeError, CodecError):
                    child.kill()
                    return self._failed("error", f"ended its process: {how_it_ended(await child.process.wait())}")
        except (ActorError, OSError) as error:
            return failed(self._work.request, "error", f"{self._actor.name}: {error}")

    async def _answer(self, child: _Child) -> OutcomeMessage:
        name, body = encode_message(self._work)
        await child.send(Ask(name, msgspec.Raw(body), self._limit))
        while True:
            match await child.told():
                case Used(usage):
                    self._used = usage
                case Done(name, body):
                    return self._checked(decode_message(name, bytes(body)), child)
                case _:
                    raise EOFError

    def _checked(self, outcome: object, child: _Child) -> OutcomeMessage:
        """The outcome, if it is one of this request. A process that is still at work on it is not used again."""
        asked, right = self._work.request, _ANSWERS[self._actor.role]
        ours = asked.run, asked.path, asked.attempt
        if not isinstance(outcome, right | Failed) or (outcome.run, outcome.path, outcome.attempt) != ours:
            raise EOFError
        if isinstance(outcome, Failed) and outcome.kind == "timeout":
            child.kill()
            return self._failed("timeout", outcome.message.removeprefix(f"{self._actor.name} "))
        return outcome

    def _failed(self, kind: FailureKind, what: str) -> Failed:
        if self._alone:
            what = f"took those who worked on it along twice, and {what} when it was carried out alone"
        return failed(self._work.request, "lost" if self._alone else kind, f"{self._actor.name} {what}")


class _Pool:
    """The processes of one actor: at most PROCESSES, each for one request at a time, and kept for the next."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._room = asyncio.Semaphore(PROCESSES)
        self._idle: list[_Child] = []

    async def prepare(self) -> None:
        """Starts a process that waits for the first request. Raises ActorError."""
        async with self.child():
            pass

    @asynccontextmanager
    async def child(self, *, fresh: bool = False) -> AsyncIterator[_Child]:
        """A process for one request, once there is room; a `fresh` one serves no other. Raises ActorError, OSError."""
        async with self._room:
            child = None if fresh else await self._waiting()
            child = child or await _started(self._actor)
            try:
                yield child
            except BaseException:
                child.kill()
                raise
            finally:
                if child.is_sound and not fresh:
                    self._idle.append(child)
                else:
                    await child.end()

    async def _waiting(self) -> _Child | None:
        """A process that waits for a request, if there is one; those that died meanwhile are cleared away."""
        while self._idle:
            child = self._idle.pop()
            if child.is_sound:
                return child
            await child.end()
        return None

    async def close(self) -> None:
        """Ends the processes that wait."""
        while self._idle:
            await self._idle.pop().end()


class _Child:
    """A process that has its actor loaded."""

    __slots__ = ("_killed", "_reader", "_transport", "process")

    def __init__(self, process: Process, reader: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        self.process = process
        self._reader = reader
        self._transport = transport
        self._killed = False

    @property
    def is_sound(self) -> bool:
        """Whether it can serve a request."""
        return not self._killed and self.process.returncode is None

    async def send(self, value: Load | Ask) -> None:
        assert self.process.stdin is not None  # noqa: S101 - it was asked for
        self.process.stdin.write(frame(value))
        await self.process.stdin.drain()

    async def told(self) -> object:
        """What it says next. Raises EOFError, MsgspecError."""
        return await received(self._reader, TOLD)

    def kill(self) -> None:
        """Kills it, and what it started."""
        self._killed = True
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, SIGKILL)

    async def end(self) -> None:
        """Kills it and waits until it is gone."""
        self.kill()
        await self.process.wait()
        self._transport.close()


async def _started(actor: Actor) -> _Child:
    """A process with the actor. Raises ActorError when it cannot load it, OSError when it cannot be started."""
    answers, end = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "redraft.app.isolated", str(end), str(os.getpid())),
            stdin=PIPE,
            pass_fds=(end,),
            env={name: value for name, value in os.environ.items() if name not in _SECRET},
            start_new_session=True,
        )
    except BaseException:
        os.close(answers)
        raise
    finally:
        os.close(end)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(answers, "rb", buffering=0)
    )
    child = _Child(process, reader, transport)
    try:
        async with asyncio.timeout(STARTING):
            await _load(child, actor)
    except TimeoutError:
        await child.end()
        raise ActorError(f"its process could not load it in {STARTING:g} s") from None
    except (EOFError, msgspec.MsgspecError, UnicodeError, ConnectionError):
        await child.end()
        ended = how_it_ended(process.returncode or 0)
        raise ActorError(f"its process ended while it was loaded: {ended}") from None
    except BaseException:
        await child.end()
        raise
    return child


async def _load(child: _Child, actor: Actor) -> None:
    await child.send(Load(actor.role, actor.name, actor.version, _file(actor)))
    match await child.told():
        case Refused(why):
            raise ActorError(why)
        case Ready():
            return
        case _:
            raise EOFError


def _is_shipped(actor: Actor) -> bool:
    return not actor.file and str(getattr(actor.function, "__module__", "")).startswith("redraft.app.")


def _file(actor: Actor) -> str:
    """The file that the actor can be loaded from; empty for one that ships and where there is none."""
    if actor.file or _is_shipped(actor):
        return actor.file
    code = getattr(inspect.unwrap(actor.function), "__code__", None)
    return code.co_filename if code is not None and Path(code.co_filename).is_file() else ""


def _require_top_level(actor: Actor) -> None:
    """Raises ActorError for an actor that another process would not find in a file."""
    if _is_shipped(actor):
        return
    if "<locals>" in getattr(actor.function, "__qualname__", ""):
        raise ActorError("it is made inside of a function; define it at the top level of its file")
    if not _file(actor):
        raise ActorError("it is in no file that another process could load; put it into one")
