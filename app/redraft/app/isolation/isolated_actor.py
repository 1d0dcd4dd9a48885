"""Runs actors in processes of their own, so that one that hangs or crashes harms no other; a late one is killed.

A process loads the actor from the file that the worker was started with, and serves one request at a time. It is kept
for the next one, unless it had to be killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from redraft.actors.runtime.working.call import Call, RunningCall, failed_outcome, with_usage
from redraft.actors.workflow.actor import Actor
from redraft.app.builtin.support.workspace import how_it_ended
from redraft.app.isolation.pool import Ask, Child, Done, Pool, Used, file_of, is_shipped
from redraft.app.telemetry.propagation import current_traceparent
from redraft.events.errors import ActorError, CodecError
from redraft.events.messages.codec import decode_message, encode_message
from redraft.events.messages.commands import OUTCOMES, Failed, OutcomeMessage, Work
from redraft.events.messages.content import MAX_DRAFT_BYTES
from redraft.events.messages.domain_events import FailureKind
from redraft.events.messages.plan import Role
from redraft.events.messages.usage import Usage


class Isolation:
    """The processes of a worker's actors. `limit` is the largest draft in bytes."""

    def __init__(self, limit: int = MAX_DRAFT_BYTES) -> None:
        self._limit = limit
        self._pools: dict[tuple[Role, str], Pool] = {}

    async def prepare(self, actors: Iterable[Actor]) -> None:
        """Starts a process for each actor that is isolated. Raises ActorError where that cannot be."""
        for actor in actors:
            if actor.isolation == "process":
                try:
                    _require_top_level(actor)
                    await self._pool(actor).prepare()
                except ActorError as error:
                    raise ActorError(f"the {actor.role} {actor.name} cannot be isolated: {error}") from None

    def begin(self, actor: Actor, work: Work, over: Callable[[], None], alone: bool) -> RunningCall:
        """Begins a call in a process; one that is carried out `alone` fails as lost when it dies or hangs.

        The function of an actor that cannot be loaded a second time runs here.
        """
        if actor.isolation == "none" and not (file_of(actor) or is_shipped(actor)):
            return Call(actor, work, over)
        return _Call(self._pool(actor), actor, work, over, self._limit, alone=alone)

    def _pool(self, actor: Actor) -> Pool:
        return self._pools.setdefault((actor.role, actor.name), Pool(actor))

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
        self, pool: Pool, actor: Actor, work: Work, over: Callable[[], None], limit: int, *, alone: bool
    ) -> None:
        self._pool = pool
        self._actor = actor
        self._work = work
        self._over: Callable[[], None] | None = over
        self._limit = limit
        self._alone = alone
        self._used = Usage()
        self._task = asyncio.create_task(self._carry_out())
        self._task.add_done_callback(self._note_end)

    def outcome(self, limit: int = MAX_DRAFT_BYTES) -> OutcomeMessage:
        """Returns the outcome of a call that is over; the limit is known to the process."""
        return with_usage(self._task.result(), self._used, self._actor, self._work.request)

    def abandon(self) -> asyncio.Task[Any]:
        """Kills the process; nobody is told. Returns what can be waited for until it is gone."""
        self._over = None
        self._task.cancel()
        return self._task

    def _note_end(self, task: asyncio.Task[OutcomeMessage]) -> None:
        if self._over is not None:
            self._over()

    async def _carry_out(self) -> OutcomeMessage:
        timeout = self._work.request.timeout
        try:
            async with self._pool.child(fresh=self._alone) as child:
                try:
                    async with asyncio.timeout(timeout):
                        return await self._answer(child)
                except TimeoutError:
                    child.kill()
                    return self._fail("timeout", f"took longer than {timeout:g} s, and its process was killed")
                except (EOFError, OSError, msgspec.MsgspecError, UnicodeError, CodecError):
                    child.kill()
                    return self._fail("error", f"ended its process: {how_it_ended(await child.process.wait())}")
        except (ActorError, OSError) as error:
            return failed_outcome(self._work.request, "error", f"{self._actor.name}: {error}")

    async def _answer(self, child: Child) -> OutcomeMessage:
        name, body = encode_message(self._work)
        await child.send(Ask(name, msgspec.Raw(body), self._limit, current_traceparent()))
        while True:
            match await child.answer():
                case Used(usage):
                    self._used = usage
                case Done(name, body):
                    return self._check_outcome(decode_message(name, bytes(body)), child)
                case _:
                    raise EOFError

    def _check_outcome(self, outcome: object, child: Child) -> OutcomeMessage:
        """The outcome, if it is one of this request. A process that is still at work on it is not used again."""
        asked, right = self._work.request, OUTCOMES[type(self._work)]
        ours = asked.run, asked.path, asked.attempt
        if not isinstance(outcome, right | Failed) or (outcome.run, outcome.path, outcome.attempt) != ours:
            raise EOFError
        if isinstance(outcome, Failed) and outcome.kind == "timeout":
            child.kill()
            return self._fail("timeout", outcome.message.removeprefix(f"{self._actor.name} "))
        return outcome

    def _fail(self, kind: FailureKind, what: str) -> Failed:
        if self._alone:
            what = f"took those who worked on it along twice, and {what} when it was carried out alone"
        return failed_outcome(self._work.request, "lost" if self._alone else kind, f"{self._actor.name} {what}")


def _require_top_level(actor: Actor) -> None:
    """Raises ActorError for an actor that another process would not find in a file."""
    if is_shipped(actor):
        return
    if "<locals>" in getattr(actor.function, "__qualname__", ""):
        raise ActorError("it is made inside of a function; define it at the top level of its file")
    if not file_of(actor):
        raise ActorError("it is in no file that another process could load; put it into one")
