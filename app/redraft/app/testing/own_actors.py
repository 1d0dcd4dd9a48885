"""Runs a user's own actors in a history: calls them as a worker does, watches them, and kills workers during calls."""

from __future__ import annotations

import _thread
import asyncio
import select
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, wraps
from random import Random
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar
from unittest.mock import patch

from redraft.actors import Actor, Context, Receipt, WithState
from redraft.app.testing.faults import Faults
from redraft.app.testing.history import Kill
from redraft.app.testing.loop import Process, owner
from redraft.app.testing.nodes import RUN, Outside

P = ParamSpec("P")
T = TypeVar("T")

_REAL: Final = {
    "socket.__new__": "opens a socket",
    "socket.getaddrinfo": "looks up an address",
    "socket.gethostbyname": "looks up an address",
    "socket.gethostbyaddr": "looks up an address",
    "socket.getnameinfo": "looks up an address",
    "redraft.wait_for_file": "waits for a socket or a pipe",
    "subprocess.Popen": "starts a program",
    "os.system": "starts a program",
    "os.posix_spawn": "starts a program",
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
    "redraft.wait_for_thread": "waits for another thread",
    "redraft.stop_loop": "stops the event loop",
    "time.sleep": "waits by the real clock (write await asyncio.sleep(...) instead, which takes no time here)",
    "_thread.start_new_thread": "starts a thread",
    "_thread.start_joinable_thread": "starts a thread",
}

_ON_REAL_WORK: ContextVar[Callable[[str], None] | None] = ContextVar("tell", default=None)


class RealWork(Exception):
    """An actor did, or tried to do, real work, for which a simulation cannot wait."""


@contextmanager
def forbid_real_work() -> Iterator[None]:
    """Lets actors do no real work within the context. The audit hook stays until Python ends, idle outside of it.

    Python has no audit event for waiting, and before 3.13 none for sleeping and for some threads: these are replaced,
    `sleep` also under the names that modules have imported it by.
    """
    _listen()
    with ExitStack() as replaced:
        for place, call, event in _UNHEARD:
            if hasattr(place, call):  # not every system has each
                replaced.enter_context(patch.object(place, call, _refusing(event, getattr(place, call))))
        for names, name in _names_of_sleep():
            replaced.callback(names.__setitem__, name, _SLEEP)
            names[name] = _sleep
        yield


@cache
def _listen() -> None:
    sys.addaudithook(_on_audit_event)


def _on_audit_event(event: str, arguments: tuple[object, ...]) -> None:
    if event in _REAL:
        _refuse(event)


def _refuse(event: str) -> None:
    if (tell := _ON_REAL_WORK.get()) is not None:
        tell(_REAL[event])
        raise RealWork(f"in a simulation no actor {_REAL[event]}")


def _sleep(seconds: float) -> None:
    _refuse("time.sleep")
    _SLEEP(seconds)


def _refusing(event: str, call: Callable[P, T]) -> Callable[P, T]:
    """Returns the call, refused within an actor."""

    def refuse_or_call(*args: P.args, **kwargs: P.kwargs) -> T:
        _refuse(event)
        return call(*args, **kwargs)

    return refuse_or_call


def _names_of_sleep() -> list[tuple[dict[str, Any], str]]:
    """Returns the names by which modules, other than this one, know `time.sleep`."""
    found = []
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict) and names is not globals():
            found += [(names, name) for name, value in list(names.items()) if value is _SLEEP]
    return found


_SLEEP: Final = time.sleep
_UNHEARD: Final = (
    (select, "select", "redraft.wait_for_file"),
    (select, "poll", "redraft.wait_for_file"),
    (threading.Condition, "wait", "redraft.wait_for_thread"),
    (threading.Thread, "start", "_thread.start_new_thread"),
    (_thread, "start_new_thread", "_thread.start_new_thread"),
)
"""Modules and classes, the names of their functions that have no audit event, and the event that stands for each."""

Make: TypeAlias = Callable[[Outside], tuple[Actor, ...]]
Place: TypeAlias = tuple[str, str, int]


class OwnActors:
    """The actors of a history of a user's own workflow. `make` is called for each worker that starts.

    `real` holds what they did that no simulation can wait for.
    """

    def __init__(self, make: Make, random: Random, faults: Faults, kill: Kill) -> None:
        self._seed = random.getrandbits(64)
        self.calls: Counter[Place] = Counter()
        self.published: Counter[Place] = Counter()
        self.outside = Outside(faults.note)
        self.real: dict[str, None] = {}
        self._receipts: dict[tuple[str, str, str], dict[str, None]] = {}
        self._make = make
        self._faults = faults
        self._kill = kill

    def actors(self) -> list[Actor]:
        """Returns new actors for a worker that starts; what earlier ones remembered is lost."""
        return [self._watch(actor) for actor in self._make(self.outside)]

    def wrong(self) -> list[str]:
        """Returns a sentence for each thing that happened outside and must not."""
        return [
            *self.outside.list_doubled(),
            *(
                f"two receipts: {path} of run {run} was published as {' and as '.join(receipts)}"
                for (run, path, _), receipts in self._receipts.items()
                if len(receipts) > 1
            ),
        ]

    def _watch(self, actor: Actor) -> Actor:
        @wraps(actor.function, assigned=())
        async def act(**values: Any) -> object:  # noqa: ANN401 - what its role takes
            context: Context = values["context"]
            self._begin(actor, context)
            with self._at_work(actor, context.run):
                done = actor.function(**{name: values[name] for name in actor.takes if name in values})
                returned = await done if actor.is_async else done
            await self._finish(actor, context, returned)
            return returned

        takes = tuple(dict.fromkeys((*actor.takes, "context")))
        return replace(actor, function=act, takes=takes, is_async=True, isolation="none", file="")

    @contextmanager
    def _at_work(self, actor: Actor, run: str) -> Iterator[None]:
        """Sets the current run, and forbids real work: it raises RealWork, and is noted, as code may swallow that."""
        token = RUN.set(run)
        refusing = _ON_REAL_WORK.set(lambda what: self.real.setdefault(f"{actor.role} {actor.name} {what}"))
        try:
            yield
        finally:
            _ON_REAL_WORK.reset(refusing)
            RUN.reset(token)

    def _begin(self, actor: Actor, context: Context) -> None:
        """Counts a call; the worker may be killed while its actor works."""
        self.calls[_place(context)] += 1
        worker, what = owner(), f"{actor.name} works at {context.path} of run {context.run}"
        self._faults.note(f"{worker}: {what}, attempt {context.attempt}", context.run)
        random = self._random_for("begun", context)
        if worker is not None and self._is_killed(random, worker, f"is killed while {what}"):
            asyncio.get_running_loop().call_later(2 * random.random() ** 2, self._kill, worker)

    async def _finish(self, actor: Actor, context: Context, returned: object) -> None:
        """Counts a publication; then the worker may be killed, or the actor fail, before the result is sent."""
        if actor.role == "publisher":
            self.published[_place(context)] += 1
            receipt = returned.result if isinstance(returned, WithState) else returned
            location = receipt.location if isinstance(receipt, Receipt) else str(receipt)
            publication = context.run, context.path, context.idempotency_key
            self._receipts.setdefault(publication, {}).setdefault(repr(location))
        worker, what = owner(), f"{actor.name} was done with {context.path} of run {context.run}"
        random = self._random_for("done", context)
        if worker is not None and self._is_killed(random, worker, f"is killed when {what}, and nobody knows"):
            self._kill(worker)
            await asyncio.get_running_loop().create_future()
        if random.random() < self._faults.odds.actor_fails and self._faults.strikes(f"{what}, and its answer is lost"):
            raise ConnectionError("the connection broke before the answer was read")

    def _is_killed(self, random: Random, worker: Process, what: str) -> bool:
        return random.random() < self._faults.odds.killed_at_work and self._faults.strikes(what, worker.name)

    def _random_for(self, when: str, context: Context) -> Random:
        """Returns a random source for one call, so that leaving out other faults does not change it."""
        return Random(f"{self._seed} {when} {context.idempotency_key}#{context.attempt} {self.calls[_place(context)]}")


def _place(context: Context) -> Place:
    return context.run, context.path, context.attempt
