"""Starts the processes of one actor, sends them requests, keeps them for later requests, and kills them.

Messages are JSON, each preceded by its length, on two pipes.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec

from redraft.actors.runtime.working.worker import PROCESSES
from redraft.actors.workflow.actor import Actor
from redraft.app.builtin.support.workspace import how_it_ended
from redraft.app.telemetry.telemetry import find_telemetry
from redraft.events.errors import ActorError
from redraft.events.messages.plan import Role
from redraft.events.messages.usage import Usage

if TYPE_CHECKING:
    from asyncio import StreamReader


LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a frame at most; a letter of the bus is smaller."""

_HEAD: Final = 4

T = TypeVar("T")


class Load(msgspec.Struct, frozen=True):
    """The actor that the process is to load: from a file or, where `file` is empty, one that ships."""

    role: Role
    name: str
    version: str
    file: str = ""


class Ask(msgspec.Struct, frozen=True):
    """A request. `name` says what `body`, its JSON, is; `limit` is the largest draft in bytes; `trace` its call's."""

    name: str
    body: msgspec.Raw
    limit: int
    trace: str = ""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The actor is loaded."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The actor cannot be loaded, and why."""

    why: str


class Used(msgspec.Struct, frozen=True, tag="used"):
    """The usage of the request until now."""

    usage: Usage


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The outcome of the request. `name` says what `body`, its JSON, is."""

    name: str
    body: msgspec.Raw


Answer: TypeAlias = Ready | Refused | Used | Done

ANSWER: Final[msgspec.json.Decoder[Answer]] = msgspec.json.Decoder(Answer)
ASK: Final = msgspec.json.Decoder(Ask)
LOAD: Final = msgspec.json.Decoder(Load)


def frame(value: Load | Ask | Answer) -> bytes:
    """Returns a value as it travels."""
    body = msgspec.json.encode(value)
    return len(body).to_bytes(_HEAD) + body


async def receive(reader: StreamReader, decoder: msgspec.json.Decoder[T]) -> T:
    """Returns the next value. Raises EOFError at the end of the pipe and for a frame that is too long, MsgspecError."""
    size = int.from_bytes(await reader.readexactly(_HEAD))
    if size > LARGEST:
        raise EOFError(f"a frame of {size:,} bytes")
    return decoder.decode(await reader.readexactly(size))


def write_all(pipe: int, data: bytes) -> None:
    """Writes all of it, however long that takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(pipe, rest) :]


STARTING: Final = 60.0
"""Seconds that a process has to load its actor."""

LEAVING: Final = 2.0
"""Seconds that a process has to export its last spans, where there is telemetry."""

_SECRET: Final = frozenset({"REDRAFT_STORE", "REDRAFT_BUS"})
"""Settings that may hold passwords, and that no actor needs."""


class Pool:
    """The processes of one actor: at most PROCESSES, each for one request at a time, and kept for the next."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._room = asyncio.Semaphore(PROCESSES)
        self._idle: list[Child] = []

    async def prepare(self) -> None:
        """Starts a process that waits for the first request. Raises ActorError."""
        async with self.child():
            pass

    @asynccontextmanager
    async def child(self, *, fresh: bool = False) -> AsyncIterator[Child]:
        """A process for one request, once there is room; a `fresh` one serves no other. Raises ActorError."""
        async with self._room:
            child = None if fresh else await self._take_waiting()
            child = child or await _start_child(self._actor)
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

    async def _take_waiting(self) -> Child | None:
        """A process that waits for a request, if there is one; those that died meanwhile are cleared away."""
        while self._idle:
            child = self._idle.pop()
            if child.is_sound:
                return child
            await child.end()
        return None

    async def close(self) -> None:
        """Ends the processes that wait."""
        exports = find_telemetry() is not None
        while self._idle:
            child = self._idle.pop()
            if exports:
                await child.leave()
            await child.end()


class Child:
    """A process that has its actor loaded."""

    __slots__ = ("_killed", "_reader", "_transport", "process")

    def __init__(self, process: Process, reader: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        self.process = process
        self._reader = reader
        self._transport = transport
        self._killed = False

    @property
    def is_sound(self) -> bool:
        """Returns whether it can serve a request."""
        return not self._killed and self.process.returncode is None

    async def send(self, value: Load | Ask) -> None:
        """Raises ConnectionError when it has ended."""
        assert self.process.stdin is not None  # noqa: S101 - it was asked for
        self.process.stdin.write(frame(value))
        await self.process.stdin.drain()

    async def answer(self) -> object:
        """Returns its next message. Raises EOFError, MsgspecError."""
        return await receive(self._reader, ANSWER)

    def kill(self) -> None:
        """Kills it, and what it started."""
        self._killed = True
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, SIGKILL)

    async def leave(self) -> None:
        """Waits at most `LEAVING` seconds until it has exported its last spans and ended by itself."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVING):
                await self.process.wait()

    async def end(self) -> None:
        """Kills it and waits until it is gone."""
        self.kill()
        await self.process.wait()
        self._transport.close()


async def _start_child(actor: Actor) -> Child:
    """A process with the actor. Raises ActorError when it cannot be started, or cannot load the actor."""
    child = await _spawn()
    try:
        async with asyncio.timeout(STARTING):
            await _load(child, actor)
    except TimeoutError:
        await child.end()
        raise ActorError(f"its process could not load it in {STARTING:g} s") from None
    except (EOFError, msgspec.MsgspecError, UnicodeError, ConnectionError):
        await child.end()
        ended = how_it_ended(child.process.returncode or 0)
        raise ActorError(f"its process ended while it was loaded: {ended}") from None
    except BaseException:
        await child.end()
        raise
    return child


async def _spawn() -> Child:
    """A process that has no actor yet. Raises ActorError when it cannot be started."""
    answers, end = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "redraft.app.isolation.child", str(end), str(os.getpid())),
            stdin=PIPE,
            pass_fds=(end,),
            env={name: value for name, value in os.environ.items() if name not in _SECRET},
            start_new_session=True,
        )
    except OSError as error:
        os.close(answers)
        raise ActorError(f"its process cannot be started: {error.strerror}") from None
    except BaseException:
        os.close(answers)
        raise
    finally:
        os.close(end)
    reader = asyncio.StreamReader()
    pipe = os.fdopen(answers, "rb", buffering=0)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return Child(process, reader, transport)


async def _load(child: Child, actor: Actor) -> None:
    await child.send(Load(actor.role, actor.name, actor.version, file_of(actor)))
    match await child.answer():
        case Refused(why):
            raise ActorError(why)
        case Ready():
            return
        case _:
            raise EOFError


def is_shipped(actor: Actor) -> bool:
    """Returns whether an actor ships with Redraft: another process makes it anew, and needs no file of it."""
    return not actor.file and str(getattr(actor.function, "__module__", "")).startswith("redraft.app.")


def file_of(actor: Actor) -> str:
    """Returns the file that the actor can be loaded from; empty for one that ships and where there is none."""
    if actor.file or is_shipped(actor):
        return actor.file
    code = getattr(inspect.unwrap(actor.function), "__code__", None)
    return code.co_filename if code is not None and Path(code.co_filename).is_file() else ""
