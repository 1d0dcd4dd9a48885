"""Announces recorded events: together in the stream, and each by itself to the queues that are bound to the topic.

The end of a run of which requests may still wait is told to workers as well, as one that was cancelled is.

What nobody listens to is not sent to the topic: of each routing key, the first event of every batch is, and the server
says whether a queue got it (`mandatory`). The others of that key follow only if one did. So a queue that binds later
gets all events of the batches after that, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import RunFacts, ends_with_requests
from redraft.events.rabbit.event_batches import Announced, announce, to_stream
from redraft.events.rabbit.fast_publish import Outgoing
from redraft.events.rabbit.publisher import Destination, Publisher
from redraft.events.rabbit.topology import Names, Topology

FEW: Final = 16
"""Up to so many events go to the topic whether or not somebody listens: an answer costs more than they do."""


class EventTopic:
    """The topic and the stream of recorded events on the server, to those who announce."""

    def __init__(self, publisher: Publisher, topology: Topology, names: Names) -> None:
        self._publisher = publisher
        self._names = names
        self._place = Destination(names.events, topology.events)
        self._heard: set[str] = set()

    async def publish(self, events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> None:
        """Publishes events in order. When one must be sent again, all later ones are sent again after it."""
        announced = announce(events, facts)
        ends = [each for each in announced if ends_with_requests(each.event, each.facts)]
        to_workers = [each.alone(self._names.cancellations, each.key, optional=True) for each in ends]
        stored = [*to_workers, *to_stream(self._names.events, announced)]
        if len(announced) <= FEW:  # the stream last: what nobody gets is confirmed at once, and then all together
            singly = [each.alone(self._names.events, each.key, optional=True) for each in announced]
            await self._publisher.send(self._place, [*singly, *stored], strictly=True)
        else:
            await self._tell(stored, announced)

    async def _tell(self, stored: Sequence[Outgoing], announced: Sequence[Announced]) -> None:
        """Sends what is `stored`, then events to the topic whose routing keys are bound.

        Before a second one of an unheard key it waits for what came of the first.
        Nothing overtakes: what comes after an event whose key may be bound waits until that is known.
        """
        asked: set[str] = set()
        unheard: set[str] = set()
        ready = list(stored)
        for each in announced:
            key = each.key
            if key in unheard:
                continue
            if key in asked and key not in self._heard:
                await self._send(ready, unheard)
                ready = []
            if key not in unheard:
                asked.add(key)
                ready.append(each.alone(self._names.events, key))
        await self._send(ready, unheard)

    async def _send(self, ready: Sequence[Outgoing], unheard: set[str]) -> None:
        """Sends these, and notes which keys are heard; adds those that no queue is bound to, to `unheard`."""
        if not ready:
            return
        returned: set[str] = set()
        await self._publisher.send(self._place, ready, strictly=True, returned=returned)
        self._heard.update(each.key for each in ready if each.exchange == self._names.events)
        self._heard -= returned
        unheard |= returned
