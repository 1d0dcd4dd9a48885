"""Messages that no part of Redraft sends, put on queues by a client that knows nothing of it: plain aio-pika."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aio_pika
import msgspec
from aio_pika.abc import HeadersType
from tests.chaos.scene import Scene
from tests.events.messages.test_codec import DEEP

from redraft.events.bus.port import INBOX, work_queue
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import CancelRun, CritiqueDraft, Generate, Message, Publish, Refine, Request, Work
from redraft.events.messages.content import Brief, new_draft
from redraft.events.rabbit.topology import Names

LARGE: Final = 50 * 1024 * 1024
NOBODY: Final = "no-such-run"


class Stranger(msgspec.Struct, frozen=True):
    """A message for a queue, and a part of the reason for which it is to be set aside."""

    queue: str
    name: str
    body: bytes
    reason: str


def proper() -> dict[str, Message | Work]:
    """For each queue a message as it should be, but for a run that is in no log."""
    draft = new_draft(1, "a text")

    def request(actor: str, path: str) -> Request:
        return Request(f"{NOBODY}/{path}", NOBODY, path, actor, 1, 60.0, Brief("a text"))

    return {
        INBOX: CancelRun(NOBODY, "it is late"),
        work_queue("generator", "write"): Generate(request("write", "write")),
        work_queue("critic", "judge"): CritiqueDraft(request("judge", "Loop[1]/judge"), draft),
        work_queue("refiner", "improve"): Refine(request("improve", "Loop[1]/improve"), draft),
        work_queue("publisher", "save"): Publish(request("save", "save"), draft),
    }


def unreadable() -> list[Stranger]:
    """For each queue: one that is not JSON, one of an unknown type, one that is as large as a broker takes.

    The last is too large for the inbox; a request may be larger, and this one is none.
    """
    found: list[Stranger] = []
    for queue, message in proper().items():
        name, body = encode_message(message)
        found.append(Stranger(queue, name, body[:-1] + b" and {torn", f"{name} cannot be read"))
        found.append(Stranger(queue, "somebody.elses.v7", body, "no message is named 'somebody.elses.v7'"))
        reason = "that a message may have" if queue == INBOX else f"{name} cannot be read"
        found.append(Stranger(queue, name, b'{"text":"%b"}' % (b"x" * LARGE), reason))
    found.append(Stranger(INBOX, "run.start.v1", DEEP, "run.start.v1 cannot be read"))
    return found


async def put(there: Scene, strangers: Sequence[Stranger]) -> None:
    """They are in their queues when this returns."""
    names = Names(there.prefix)
    async with await aio_pika.connect(there.node.url) as connection, connection.channel() as channel:
        for stranger in strangers:
            headers: HeadersType = {"cloudEvents:type": stranger.name}
            message = aio_pika.Message(stranger.body, headers=headers, content_type="application/json")
            await channel.default_exchange.publish(message, names.there(stranger.queue), mandatory=True)
