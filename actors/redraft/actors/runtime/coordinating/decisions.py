"""Messages that a coordinator decides on, its decisions and their results, the new events with their ids,
and the choice of arms.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from random import Random
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from redraft.actors.deciding.decider import is_early, is_open, place_to_look_after, why_unwelcome
from redraft.actors.runtime.coordinating.aggregates import Aggregate
from redraft.events.errors import StoreError
from redraft.events.messages.commands import ConfirmStep, ExpireStep, Message, request_id
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import Choice, DomainEvent, Tally
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.store.append import Encoded, NewEvent, NotTaken

PendingResults: TypeAlias = Coroutine[None, None, Sequence[tuple[Recorded, ...] | NotTaken]]


class Incoming(msgspec.Struct, frozen=True, gc=False):
    """A message with its origin, and for the start of a fork the `past` events that it repeats.

    `tag` identifies the message for the caller. `fresh` is true for a first delivery: a run that it starts is taken to
    be new until the log objects. `refused_on` is the hash that it was decided on when the log last refused its events,
    `unstorable` why the database never takes them, if that is so.
    `users` are all who sent it, see `Delivery`.
    """

    message: Message
    origin: Origin
    tag: int = 0
    fresh: bool = False
    past: Sequence[Recorded] = ()
    refused_on: str | None = None
    unstorable: str = ""
    users: Sequence[str] = ("",)


class Decided(msgspec.Struct, frozen=True, gc=False):
    """The decision on a message: append events, send a request again, refuse the message, or do nothing.

    `on` is the hash of the event that it was decided on. It is `early` when the message's run may be about to begin,
    and `barred` when its sender may never send it. `postponed` is why nothing can be decided yet, if that is so.
    """

    incoming: Incoming
    aggregate: Aggregate
    on: str
    append: Encoded | None = None
    doubt: ConfirmStep | None = None
    refused: str = ""
    early: bool = False
    barred: bool = False
    postponed: StoreError | None = None


def discard(incoming: Incoming, refused: str = "") -> Decided:
    """Returns a decision that appends nothing and is not decided on again."""
    return Decided(incoming, Aggregate(), "", refused=refused)


def postpone(incoming: Incoming, why: StoreError) -> Decided:
    """Returns no decision: the message has to be decided on later."""
    return Decided(incoming, Aggregate(), "", postponed=why)


def decide_nothing(each: Incoming, aggregate: Aggregate) -> Decided:
    """Returns the decision that records nothing: it sends an open request again, refuses the message, or ignores it."""
    message, state = each.message, aggregate.state
    if isinstance(message, ConfirmStep) and is_open(state, message.path, message.attempt):
        return Decided(each, aggregate, aggregate.hash, doubt=message)
    if isinstance(message, ExpireStep) and (place := place_to_look_after(state, message.path)):
        return Decided(each, aggregate, aggregate.hash, doubt=ConfirmStep(message.run, place, 1, 1))
    refused, early = why_unwelcome(state, message), is_early(state, message)
    return Decided(each, aggregate, aggregate.hash, refused=refused, early=early)


class DecidedBatch(msgspec.Struct, frozen=True, gc=False):
    """Decisions made together, and the append of their events, which has begun."""

    decided: Sequence[Decided]
    written: PendingResults | None


class Settled(msgspec.Struct, frozen=True, gc=False):
    """The result of a message: the events recorded, or why it is `refused`; neither if it changes nothing."""

    incoming: Incoming
    recorded: tuple[Recorded, ...] = ()
    refused: str = ""
    barred: bool = False


def new_events(
    cause: Origin, run: str, events: Sequence[DomainEvent], now: datetime, past: Sequence[Recorded] = ()
) -> tuple[NewEvent, ...]:
    """Returns the events with ids made from the id of the message that caused them.

    Of a fork, as many events as the `past` has, after the first, name the event that they repeat and its actor.
    """
    first = f"{cause.id}.0"
    correlation = cause.correlation or run
    if past:
        return _fork_events(cause, run, events, now, past)
    begun = NewEvent(Origin(first, cause.actor, cause.causation, correlation, cause.trace), now, events[0])
    rest = [
        NewEvent(Origin(f"{cause.id}.{number}", "coordinator", first, correlation, cause.trace), now, event)
        for number, event in enumerate(events[1:], 1)
    ]
    return (begun, *rest)


def _fork_events(
    cause: Origin, run: str, events: Sequence[DomainEvent], now: datetime, past: Sequence[Recorded]
) -> tuple[NewEvent, ...]:
    own = new_events(cause, run, events, now)
    repeated = (
        replace(new, origin=replace(new.origin, actor=before.actor, repeats=before.id))
        for new, before in zip(own[1:], past[1:], strict=False)
    )
    return (own[0], *repeated, *own[len(past) :])


Tallies: TypeAlias = Mapping[str, Sequence[Tally]]
"""The tallies of the arms of one workflow, by the path in the plan of the step that chooses."""


def thompson(
    run: str, tallies: Tallies, path: str, step: str, arms: Sequence[str], draft: DraftRef | None = None
) -> Choice:
    """Returns the arm for a request, whatever its draft, by Thompson sampling over how earlier runs credited each arm.

    After s successes and f failures the belief about an arm's success rate is Beta(s + 1, f + 1); a rate is drawn from
    each arm's, and the highest is chosen: mostly a proven arm, and now and then one of which little is known. The
    request's id is the seed, so that the same tallies give the same arm, whoever decides, however often. The choice
    holds all tallies that it was made with; an arm without a tally has 0 of both. Sources: W. R. Thompson, Biometrika
    25 (1933); O. Chapelle and L. Li, "An Empirical Evaluation of Thompson Sampling", NIPS 2011.
    """
    known = {each.arm: each for each in tallies.get(step, ())}
    counts = tuple(known.get(arm) or Tally(arm) for arm in arms)
    random = Random(request_id(run, path, 1))  # noqa: S311 - nothing is to be kept secret
    rates = [random.betavariate(1 + each.successes, 1 + each.failures) for each in counts]
    return Choice(counts[rates.index(max(rates))].arm, counts)
