"""The published language: what can be requested, what can have happened, how it is kept, how it travels.

The packages: `messages` holds commands, events, their content and their encoding; `bus` and `rabbit` carry messages;
`store`, `sqlite` and `postgres` keep events; `encryption` protects their texts; `subscriptions` keeps the positions of
durable subscribers; `backends` opens the database that a URL names; `errors` is the error tree; `underway` times
operations; `public_names` imports what a package offers when it is first asked for. None of them knows another layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redraft.events.public_names import public_names

if TYPE_CHECKING:
    from redraft.events.backends import open_store as open_store
    from redraft.events.bus.local import LocalBus as LocalBus
    from redraft.events.bus.port import Bus as Bus
    from redraft.events.errors import RedraftError as RedraftError
    from redraft.events.messages.content import (
        Brief as Brief,
        Critique as Critique,
        Draft as Draft,
        DraftRef as DraftRef,
        History as History,
        Receipt as Receipt,
        Revision as Revision,
    )
    from redraft.events.messages.domain_events import DomainEvent as DomainEvent
    from redraft.events.messages.folders import FOLDER as FOLDER, File as File, print_folder as print_folder
    from redraft.events.messages.envelope import Origin as Origin, Recorded as Recorded
    from redraft.events.messages.plan import Plan as Plan
    from redraft.events.messages.usage import Usage as Usage
    from redraft.events.store.event_store import Append as Append, EventStore as EventStore, NewEvent as NewEvent
else:
    __getattr__, __dir__ = public_names(__name__)
