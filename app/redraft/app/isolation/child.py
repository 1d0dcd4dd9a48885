"""Run as a program by a worker: loads one actor and carries out its requests, one after the other.

Standard input is the pipe on which it is asked. The arguments are the pipe on which it answers and the process id of
its worker; it ends with the worker, by the kernel's own hand where the system is Linux.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from redraft.actors.runtime.failures import traceback_of
from redraft.actors.runtime.working.call import Call, unwritable_outcome
from redraft.actors.workflow.actor import Actor
from redraft.app.builtin.support.limited import end_with
from redraft.app.isolation.pool import (
    ASK,
    LOAD,
    Answer,
    Ask,
    Done,
    Load,
    Ready,
    Refused,
    Used,
    frame,
    receive,
    write_all,
)
from redraft.app.models.configuration import models_of
from redraft.app.process.library_logs import quiet
from redraft.app.process.user_output import user_output
from redraft.app.settings.settings import read_settings
from redraft.app.telemetry.propagation import below, flush_spans
from redraft.app.telemetry.sdk import exporting
from redraft.app.workflows.actor_registry import actors_for
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.app.workflows.user_file import actors_in
from redraft.events.errors import ActorError, RedraftError
from redraft.events.messages.codec import decode_work, encode_message
from redraft.events.messages.commands import Request
from redraft.events.messages.usage import Usage

_METERED: Final = 0.5
"""Seconds between two looks at meters that run."""


def main() -> int:
    answers, worker = map(int, sys.argv[1:])
    end_with(worker)
    os.set_inheritable(answers, False)
    requests = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    lock = Lock()

    def tell(answer: Answer) -> None:
        with lock:
            write_all(answers, frame(answer))

    with quiet(), exporting("actor", _say_nothing):
        asyncio.run(_serve(requests, tell))
    return 0


def _say_nothing(fault: str) -> None:
    """Says nothing: the worker has said why there is no telemetry."""


async def _serve(requests: int, tell: Callable[[Answer], None]) -> None:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(requests, "rb", buffering=0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    environment = ActorEnvironment(sys.stdout, Path.cwd(), models=models_of(read_settings()))
    with user_output():
        try:
            actor = _load_actor(await receive(reader, LOAD), environment)
        except RedraftError as error:
            tell(Refused(str(error)))
            return
        tell(Ready())
        following = asyncio.create_task(receive(reader, ASK))
        while True:
            try:
                ask = await following
            except EOFError:
                return
            following = asyncio.create_task(receive(reader, ASK))
            tell(await _carry_out(actor, ask, tell, following))
            await asyncio.to_thread(flush_spans)


def _load_actor(load: Load, environment: ActorEnvironment) -> Actor:
    """The actor; raises RedraftError when it is not there, or is another than the worker has."""
    there = actors_in(Path(load.file)) if load.file else actors_for([load.name], load.role, environment)
    same = [each for each in there if (each.role, each.name) == (load.role, load.name)]
    if not same:
        raise ActorError(f"there is no {load.role} {load.name!r} in {load.file} when it is loaded again")
    if right := [each for each in same if each.version == load.version]:
        return right[0]
    raise ActorError(f"{load.file} was changed since the worker began; start the worker again")


def _print_traceback(actor: Actor, request: Request, error: BaseException) -> None:
    """Writes where an exception came from to standard error, which is the worker's own."""
    lines = "\n  ".join(traceback_of(error))
    print(f"{actor.role} {actor.name} raised at {request.path}:\n  {lines}", file=sys.stderr, flush=True)  # noqa: T201


async def _carry_out(actor: Actor, ask: Ask, tell: Callable[[Answer], None], following: asyncio.Task[Ask]) -> Done:
    """Carries out a request and returns its outcome; reports the usage meanwhile, polling meters every `_METERED` s."""
    work = decode_work(ask.name, bytes(ask.body))
    over = asyncio.Event()
    with below(ask.trace):
        call = Call(actor, work, over.set, on_usage=lambda: tell(Used(call.used)), on_error=_print_traceback)
    ended = asyncio.create_task(over.wait())
    reported = Usage()
    while not ended.done():
        await asyncio.wait({ended, following}, timeout=_METERED, return_when=asyncio.FIRST_COMPLETED)
        if following.done() and not ended.done():  # only the end of the pipe comes before the answer
            os._exit(1)
        if call.used != reported:
            reported = call.used
            tell(Used(reported))
    outcome = call.outcome(ask.limit)
    try:
        name, body = encode_message(outcome)
    except (UnicodeEncodeError, msgspec.MsgspecError) as error:
        name, body = encode_message(unwritable_outcome(actor, work, error))
    return Done(name, msgspec.Raw(body))


if __name__ == "__main__":
    sys.exit(main())
