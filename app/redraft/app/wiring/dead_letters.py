"""The names that queues have on the broker, and the facts about dead letters."""

from __future__ import annotations

from collections.abc import Callable

from redraft.actors.runtime.relaying.event_publisher import TOPIC
from redraft.events.bus.port import DEAD_LETTERS, DeadLetter
from redraft.events.errors import InputError


def queue_names(prefix: str) -> Callable[[str], str]:
    """Returns what gives a queue its name on the broker, and leaves as it is what cannot be a queue of ours."""
    from redraft.events.rabbit.topology import Names  # only those who look at dead letters wait for its import

    names = Names(prefix)
    reserved = {DEAD_LETTERS: names.dead_letters, TOPIC: names.events}

    def there(queue: str) -> str:
        try:
            return names.there(queue)
        except InputError:
            return reserved.get(queue, queue)

    return there


def letter_facts(there: Callable[[str], str], dead_letter: DeadLetter) -> dict[str, object]:
    """Returns where a dead letter was, why it was set aside, and where it came from, as JSON shows it.

    `users` are its senders, the first one first, "" for one that names nobody; the last is known to the broker.
    """
    bus_message = dead_letter.bus_message
    return {
        "id": dead_letter.id,
        "queue": there(dead_letter.queue),
        "name": bus_message.name,
        "run": bus_message.run,
        "reason": dead_letter.reason,
        "bytes": len(bus_message.body),
        "users": dead_letter.users,
        "from": bus_message.origin.actor,
        "causation": bus_message.origin.causation,
    }
