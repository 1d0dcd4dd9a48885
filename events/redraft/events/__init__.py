"""The published language: what can be requested, what can have happened, how it is kept, how it travels.

The packages: `messages` holds commands, events, their content and their encoding; `bus` and `rabbit` carry messages;
`store`, `sqlite` and `postgres` keep events; `encryption` protects their texts; `subscriptions` keeps the positions of
durable subscribers; `backends` opens the database that a URL names; `errors` is the error tree; `underway` times
operations. None of them knows another layer.
"""

from redraft.events.backends import open_store
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import Bus
from redraft.events.errors import RedraftError
from redraft.events.messages.content import Brief, Critique, Draft, DraftRef, History, Receipt, Revision
from redraft.events.messages.domain_events import DomainEvent
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.plan import Plan
from redraft.events.messages.usage import Usage
from redraft.events.store.event_store import Append, EventStore, NewEvent

__all__ = [
    "Append",
    "Brief",
    "Bus",
    "Critique",
    "DomainEvent",
    "Draft",
    "DraftRef",
    "EventStore",
    "History",
    "LocalBus",
    "NewEvent",
    "Origin",
    "Plan",
    "Receipt",
    "Recorded",
    "RedraftError",
    "Revision",
    "Usage",
    "open_store",
]
