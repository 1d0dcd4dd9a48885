"""The pages of a deployment: actors and their workers, dead letters, subscriptions and parked events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from litestar import Response, post
from litestar.params import FromPath

from redraft.app.dashboard.live import Subject
from redraft.app.dashboard.visit import Visits, page
from redraft.app.process.times import moment_of
from redraft.app.server.access.identity import needs
from redraft.app.server.api import administration
from redraft.app.server.api.figures import ActorSeen, read_actors
from redraft.app.server.service import Service
from redraft.app.subscribing.lags import Lagging, list_lags
from redraft.events.subscriptions.subscriptions import ParkedEvent
from redraft.projections.display import quoted
from redraft.projections.read_models.runs_query import list_workflows

_OFTEN: Final = Subject(every=2.0)
"""The subject of pages that also change without an event: queues, lags, workers."""


class OverRuns(msgspec.Struct, frozen=True, omit_defaults=True):
    """The query parameters of a page about many runs."""

    since: str = ""
    workflow: str = ""

    @property
    def start(self) -> datetime | None:
        """The time that it selects from. Raises InputError for what is none."""
        return moment_of(self.since, "since")

    def stats(self, figures: str) -> str:
        """Returns the command line that shows the same figures."""
        given = {"workflow": self.workflow, "since": self.since}
        return " ".join(
            ("redraft stats", figures, *(f"--{name} {quoted(each)}" for name, each in given.items() if each))
        )


class ActorsShown(msgspec.Struct, frozen=True):
    """The actors, and from which runs."""

    choice: OverRuns
    actors: Sequence[ActorSeen]
    workflows: Sequence[str]
    now: datetime


@page("/actors")
async def list_actors(visit: Visits) -> Response[Any]:
    """Shows what actors did, who serves them now, what waits for them, and since when."""
    choice = visit.query(OverRuns)

    async def make() -> ActorsShown:
        actors = await read_actors(visit.service, choice.start, choice.workflow)
        names = await list_workflows(visit.service.runtime.views)
        return ActorsShown(choice, actors, names, datetime.now(UTC))

    return await visit.show("actors", "Actors", make, _OFTEN)


class LettersShown(msgspec.Struct, frozen=True):
    """The dead letters, the oldest first."""

    letters: Sequence[dict[str, object]]


@page("/dead-letters")
async def list_letters(visit: Visits) -> Response[Any]:
    """Shows the messages that nobody could work on, with the reasons."""

    async def make() -> LettersShown:
        return LettersShown(await administration.read_letters(visit.service))

    return await visit.show("letters", "Dead letters", make, _OFTEN)


@post("/dead-letters/{letter:str}/retry", status_code=200)
async def retry_letter(visit: Visits, letter: FromPath[str]) -> Response[Any]:
    """Puts a dead letter back into its queue."""
    await administration.retry(visit.service, letter)
    return visit.tell("done_said.html", done="It is back in its queue.")


@post("/dead-letters/{letter:str}/discard", status_code=200, guards=[needs("admin")])
async def discard_letter(visit: Visits, letter: FromPath[str]) -> Response[Any]:
    """Deletes a dead letter for good."""
    await administration.discard(visit.service, letter)
    return visit.tell("done_said.html", done="It is deleted. If it asked for a step, that attempt fails as lost.")


class Shown(msgspec.Struct, frozen=True):
    """A subscription, what is parked for it, and which command calls it by its webhook or program."""

    lagging: Lagging
    parked: Sequence[ParkedEvent]


class SubscriptionsShown(msgspec.Struct, frozen=True):
    """The subscriptions by name; `kept` is whether the store keeps any."""

    kept: bool
    head: int
    subscriptions: Sequence[Shown]


@page("/subscriptions")
async def list_subscriptions(visit: Visits) -> Response[Any]:
    """Shows the named subscriptions and webhooks: position, lag, what fails, what is parked."""
    return await visit.show("subscriptions", "Subscriptions", lambda: _subscriptions(visit.service), _OFTEN)


async def _subscriptions(service: Service) -> SubscriptionsShown:
    store, names = service.runtime.store, service.subscriptions
    head = await store.head()
    if names is None:
        return SubscriptionsShown(kept=False, head=head, subscriptions=())
    found = [Shown(each, await names.parked(each.found.name)) for each in await list_lags(store, names)]
    return SubscriptionsShown(kept=True, head=head, subscriptions=found)


@post("/subscriptions/{name:str}/parked/{event:str}/retry", status_code=200)
async def retry_parked(visit: Visits, name: FromPath[str], event: FromPath[str]) -> Response[Any]:
    """Has a parked event tried once more."""
    done = await administration.settle_parked(visit.service, name, event, retried=True)
    return visit.tell("done_said.html", done=f"To be tried again: {len(done)}.")


@post("/subscriptions/{name:str}/parked/{event:str}/discard", status_code=200, guards=[needs("admin")])
async def discard_parked(visit: Visits, name: FromPath[str], event: FromPath[str]) -> Response[Any]:
    """Takes a parked event away."""
    done = await administration.settle_parked(visit.service, name, event, retried=False)
    return visit.tell("done_said.html", done=f"Taken away: {len(done)}. The log keeps them.")


PAGES: Final = (list_actors, list_letters, list_subscriptions)
FORMS: Final = (retry_letter, discard_letter, retry_parked, discard_parked)
