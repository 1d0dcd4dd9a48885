"""A user's own actors in a history: called as a worker calls them, watched, and killed at work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, TypeAlias

from redraft.actors import Actor, Context, Receipt
from redraft.app.testing.faults import Faults
from redraft.app.testing.history import Kill
from redraft.app.testing.loop import owner
from redraft.app.testing.outside import RUN, Outside
from redraft.app.testing.real_work import no_real_work

Make: TypeAlias = Callable[[Outside], tuple[Actor, ...]]
Place: TypeAlias = tuple[str, str, int]


class OwnActors:
    """Who works in a history of a user's own workflow. `make` is called for each worker that starts.

    `real` is what they did that no simulation can wait for.
    """

    def __init__(self, make: Make, random: Random, faults: Faults, kill: Kill) -> None:
        self._seed = random.getrandbits(64)
        self.calls: Counter[Place] = Counter()
        self.published: Counter[Place] = Counter()
        self.outside = Outside(faults.note)
        self.real: dict[str, None] = {}
        self._receipts: dict[Place, dict[str, None]] = {}
        self._make = make
        self._faults = faults
        self._kill = kill

    def actors(self) -> list[Actor]:
        """Those of a worker that starts: what the last one's remembered is gone."""
        return [self._watched(actor) for actor in self._make(self.outside)]

    def wrong(self) -> list[str]:
        """What happened outside that ought not to, in sentences."""
        return [
            *self.outside.doubled(),
            *(
                f"two receipts: {path} of run {run}, attempt {attempt}, was published as {' and as '.join(receipts)}"
                for (run, path, attempt), receipts in self._receipts.items()
                if len(receipts) > 1
            ),
        ]

    def _watched(self, actor: Actor) -> Actor:
        async def act(**values: Any) -> object:  # noqa: ANN401 - what its role takes
            context: Context = values["context"]
            self._begun(actor, context)
            with self._at_work(actor, context.run):
                done = actor.function(**{name: values[name] for name in actor.takes})
                returned = await done if actor.is_async else done
            await self._done(actor, context, returned)
            return returned

        takes = tuple(dict.fromkeys((*actor.takes, "context")))
        return Actor(actor.name, actor.role, act, takes, True, actor.scale, actor.version)

    @contextmanager
    def _at_work(self, actor: Actor, run: str) -> Iterator[None]:
        """The actor has the run it works for at hand, and can do nothing real."""
        token = RUN.set(run)
        try:
            with no_real_work(lambda what: self.real.setdefault(f"{actor.role} {actor.name} {what}")):
                yield
        finally:
            RUN.reset(token)

    def _begun(self, actor: Actor, context: Context) -> None:
        """A worker may be killed while its actor works."""
        self.calls[_place(context)] += 1
        worker, what = owner(), f"{actor.name} works at {context.path} of run {context.run}"
        self._faults.note(f"{worker}: {what}, attempt {context.attempt}", context.run)
        random = self._drawn("begun", context)
        if worker is not None and self._is_killed(random, f"{worker} is killed while {what}"):
            asyncio.get_running_loop().call_later(2 * random.random() ** 2, self._kill, worker)

    async def _done(self, actor: Actor, context: Context, returned: object) -> None:
        """A worker may be killed when its actor is done, before anybody hears of it."""
        if actor.role == "publisher":
            self.published[_place(context)] += 1
            location = returned.location if isinstance(returned, Receipt) else str(returned)
            self._receipts.setdefault(_place(context), {}).setdefault(repr(location))
        worker, what = owner(), f"{actor.name} was done with {context.path} of run {context.run}"
        if worker is not None and self._is_killed(
            self._drawn("done", context), f"{worker} is killed when {what}, and nobody knows"
        ):
            self._kill(worker)
            await asyncio.get_running_loop().create_future()

    def _is_killed(self, random: Random, what: str) -> bool:
        return random.random() < self._faults.odds.killed_at_work and self._faults.strikes(what)

    def _drawn(self, when: str, context: Context) -> Random:
        """Chance of its own for each call, so that it is the same when other faults are left out."""
        return Random(f"{self._seed} {when} {context.idempotency_key}#{context.attempt} {self.calls[_place(context)]}")


def _place(context: Context) -> Place:
    return context.run, context.path, context.attempt
