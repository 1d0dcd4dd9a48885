"""Carries out what events of a run mean for the runs of its items, and for the run around it, where no relay runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from redraft.actors.runtime.coordinating.command_handler import CommandHandler
from redraft.actors.runtime.relaying.item_runs import ItemRuns, reader_of
from redraft.actors.runtime.relaying.queue_publisher import raise_if_unavailable
from redraft.events.bus.port import BusMessage
from redraft.events.messages.codec import decode_message
from redraft.events.messages.domain_events import RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import eaches_of


async def pass_on(handler: CommandHandler, recorded: Sequence[Recorded]) -> None:
    """Carries out the messages between runs that a relay would send for these events, and for all that come of them.

    A relay of another process that follows the log may send them too: they have the same ids, and are carried out once.
    As with a relay, a run that cannot be read is left out. What a run asks for meanwhile waits until it is worked on.
    Raises StoreError.
    """
    items = ItemRuns(reader_of(handler.log))
    events = deque(recorded)
    while events:
        event = events.popleft()
        for message in await _messages(handler, items, event):
            settled = await handler.carry_out(decode_message(message.name, message.body), message.origin)
            events += settled.recorded


async def _messages(handler: CommandHandler, items: ItemRuns, event: Recorded) -> Sequence[BusMessage]:
    try:
        (first,) = await handler.log.read(event.run, upto=1)
        if not isinstance(first.data, RunStarted):
            return ()
        has_items = any(True for _ in eaches_of(first.data.plan.steps))
        return await items.follow(event, first.data.of, has_items=has_items)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a run concerns that run alone
        raise_if_unavailable(error)
        return ()
