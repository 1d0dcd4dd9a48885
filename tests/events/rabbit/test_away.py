"""A server that went away is named with the reason why it cannot be reached again."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq
from tests.proxy import Proxy

from redraft.events.bus.port import BusMessage, work_queue
from redraft.events.errors import BusError
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.bus import RabbitBus

QUEUE = work_queue("critic", "judge")


async def test_the_reason_of_a_failed_connection_is_said() -> None:
    require_rabbitmq()
    prefix = new_prefix()
    async with asyncio.timeout(60):
        async with Proxy(urlsplit(URL).port or 5672).open() as proxy:
            bus = RabbitBus(proxy.through(URL), prefix=prefix, patience=1.0)
            await bus.__aenter__()
            await bus.publish(QUEUE, [BusMessage("draft.critique.v1", b"{}", Origin("1", "test"))])
        with pytest.raises(BusError, match=r"could not be used for 1 seconds: .*(refused|Connect call failed)"):
            await bus.publish(QUEUE, [BusMessage("draft.critique.v1", b"{}", Origin("2", "test"))])
        await bus.__aexit__(None, None, None)
        await clear(URL, prefix, [QUEUE])
