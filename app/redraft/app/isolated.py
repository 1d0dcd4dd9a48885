"""Run as a program by a worker: loads one actor and carries out its requests, one after the other.

Standard input is the pipe on which it is asked. The arguments are the pipe on which it answers and the process id of
its worker; it ends with the worker, by the kernel's own hand where the system is Linux.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from redraft.actors.perform import Call, unwritable
from redraft.actors.roles import Actor
from redraft.app.builtin.limited import end_with
from redraft.app.isolation_frames import (
    ASK,
    LOAD,
    Ask,
    Done,
    Load,
    Ready,
    Refused,
    Told,
    Used,
    frame,
    received,
    write_all,
)
from redraft.app.libraries import quiet
from redraft.app.models import models_of
from redraft.app.outlets import Outlets
from redraft.app.settings import read_settings
from redraft.app.targets import actors_for
from redraft.app.user_file import actors_in
from redraft.events.codec import decode_work, encode_message
from redraft.events.errors import ActorError, RedraftError
from redraft.events.usage import Usage

_METERED: Final = 0.5
"""Seconds between two looks at meters that run."""


def main() -> int:
    answers, worker = map(int, sys.argv[1:])
    end_with(worker)
    os.set_inheritable(answers, False)
    asked = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    lock = Lock()

    def tell(told: Told) -> None:
        with lock:
            write_all(answers, frame(told))

    with quiet():
        asyncio.run(_serve(asked, tell))
    return 0


async def _serve(asked: int, tell: Callable[[Told], None]) -> None:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(asked, "rb", buffering=0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    outlets = Outlets(sys.stdout, Path.cwd(), models=models_of(read_settings()))
    with redirect_stdout(sys.stderr):
        try:
            actor = _loaded(await received(reader, LOAD), outlets)
        except RedraftError as error:
            tell(Refused(str(error)))
            return
        tell(Ready())
        following = asyncio.create_task(received(reader, ASK))
        while True:
            try:
                ask = await following
            except EOFError:
                return
            following = asyncio.create_task(received(reader, ASK))
            tell(await _carried_out(actor, ask, tell, following))


def _loaded(load: Load, outlets: Outlets) -> Actor:
    """The actor; raises RedraftError when it is not there, or is another than the worker has."""
    there = actors_in(Path(load.file)) if load.file else actors_for([load.name], load.role, outlets)
    same = [each for each in there if (each.role, each.name) == (load.role, load.name)]
    if not same:
        raise ActorError(f"there is no {load.role} {load.name!r} in {load.file} when it is loaded again")
    if right := [each for each in same if each.version == load.version]:
        return right[0]
    raise ActorError(f"{load.file} was changed since the worker began; start the worker again")


async def _carried_out(actor: Actor, ask: Ask, tell: Callable[[Told], None], following: asyncio.Task[Ask]) -> Done:
    """The outcome of a request. What was used is told as it is reported; meters are looked at now and then."""
    work = decode_work(ask.name, bytes(ask.body))
    over = asyncio.Event()
    call = Call(actor, work, over.set, heard=lambda: tell(Used(call.used)))
    ended = asyncio.create_task(over.wait())
    told = Usage()
    while not ended.done():
        await asyncio.wait({ended, following}, timeout=_METERED, return_when=asyncio.FIRST_COMPLETED)
        if following.done() and not ended.done():  # only the end of the pipe comes before the answer
            os._exit(1)
        if call.used != told:
            told = call.used
            tell(Used(told))
    outcome = call.outcome(ask.limit)
    try:
        name, body = encode_message(outcome)
    except (UnicodeEncodeError, msgspec.MsgspecError) as error:
        name, body = encode_message(unwritable(actor, work, error))
    return Done(name, msgspec.Raw(body))


if __name__ == "__main__":
    sys.exit(main())
