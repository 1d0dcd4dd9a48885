"""What can be asked, what can have happened, how it is kept, how it travels.

The modules: `content`, `conditions` and `plan` hold what messages are made of; `commands` and `domain_events` the
messages themselves; `envelope` and `codec` how they are addressed and written; `store` keeps events; `bus` and
`local_bus` carry messages; `errors` draws the one error tree.
"""

from redraft.events.bus import Bus
from redraft.events.content import Brief, Critique, Draft, DraftRef, History, Receipt, Revision
from redraft.events.domain_events import DomainEvent
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import RedraftError
from redraft.events.local_bus import LocalBus
from redraft.events.plan import Plan
from redraft.events.store import Append, EventStore, NewEvent, open_store
from redraft.events.usage import Usage

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
