"""A worker that takes its requests from a server by HTTP: what one lease meets is no other's trouble."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx
import msgspec
import pytest
import structlog

from redraft.app.wiring import http_bus
from redraft.app.wiring.http_bus import HttpBus
from redraft.events.bus.port import INBOX, BusMessage
from redraft.events.errors import BusError
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.structured_events import structured

DEADLINE = 30.0


class Server:
    """Leases two requests, and refuses to extend the first lease, or says what nobody understands."""

    def __init__(self, refusal: httpx.Response) -> None:
        self.refusal = refusal
        self.leased = 0
        self.extended: Counter[str] = Counter()
        self.changed = asyncio.Event()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        match request.url.path.split("/")[3:]:
            case ["requests", "lease"] if self.leased < 2:
                self.leased += 1
                command = structured(BusMessage("x.y.v1", b"{}", Origin(f"id-{self.leased}", "test"), "run"))
                leased = {"lease": f"lease-{self.leased}", "delivery": 1, "command": msgspec.Raw(command)}
                return httpx.Response(
                    200, content=msgspec.json.encode(leased), headers={"Content-Type": "application/json"}
                )
            case ["leases", lease, "extend"]:
                self.extended[lease] += 1
                self.changed.set()
                return self.refusal if lease == "lease-1" else httpx.Response(200, json={"cancelled": False})
            case _:
                return httpx.Response(204)


@pytest.mark.parametrize(
    "refusal", [httpx.Response(503, json={"detail": "later"}), httpx.Response(200, text="<p>a proxy</p>")]
)
async def test_a_lease_that_cannot_be_extended_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch, refusal: httpx.Response
) -> None:
    monkeypatch.setattr(http_bus, "EXTENDED", 0.01)
    server = Server(refusal)
    client = httpx.AsyncClient(base_url="http://server", transport=httpx.MockTransport(server.answer))
    async with (
        asyncio.timeout(DEADLINE),
        HttpBus(client, structlog.get_logger()) as bus,
        bus.consume("redraft.critic.judge", 4) as consumer,
    ):
        for _ in range(2):
            await consumer.take(1)
        while server.extended["lease-2"] < 20 or not server.extended["lease-1"]:
            server.changed.clear()
            await server.changed.wait()
    assert server.extended["lease-1"] >= 1


PAGES = {
    "maintenance": httpx.Response(200, html="<p>We are back soon</p>"),
    "login": httpx.Response(302, headers={"Location": "https://login.example"}),
    "no backend": httpx.Response(404, text="default backend - 404"),
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
async def test_a_page_of_a_proxy_is_no_answer_of_the_server(
    monkeypatch: pytest.MonkeyPatch, page: httpx.Response
) -> None:
    monkeypatch.setattr(http_bus, "AGAIN", 0.001)
    server, refused = Server(page), Counter[str]()

    async def answer(request: httpx.Request) -> httpx.Response:
        place = request.url.path
        refused[place] += 1
        return page if refused[place] == 1 else await server.answer(request)

    client = httpx.AsyncClient(base_url="http://server", transport=httpx.MockTransport(answer))
    async with (
        asyncio.timeout(DEADLINE),
        HttpBus(client, structlog.get_logger()) as bus,
        bus.consume("redraft.critic.judge", 4) as consumer,
    ):
        [delivery] = await consumer.take(1)
        cause = Origin("id-a", "test", causation=delivery.bus_message.origin.id)
        await bus.publish(INBOX, [BusMessage("x.z.v1", b"{}", cause, "run")])
    assert (refused["/api/v1/requests/lease"], refused["/api/v1/leases/lease-1/answer"]) == (2, 2)


async def test_an_address_that_answers_with_pages_is_no_server() -> None:
    async def answer(_: httpx.Request) -> httpx.Response:
        return PAGES["maintenance"]

    client = httpx.AsyncClient(base_url="http://elsewhere", transport=httpx.MockTransport(answer))
    async with HttpBus(client, structlog.get_logger()) as bus:
        with pytest.raises(BusError, match="http://elsewhere is no `redraft serve`"):
            await bus.ping()


async def test_what_a_proxy_refuses_is_refused() -> None:
    """As an answer that is longer than a proxy lets pass: it would be so each time."""

    async def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(413, html="<h1>413 Request Entity Too Large</h1>")

    client = httpx.AsyncClient(base_url="http://server", transport=httpx.MockTransport(answer))
    async with asyncio.timeout(DEADLINE), HttpBus(client, structlog.get_logger()) as bus:
        await bus.publish(INBOX, [BusMessage("x.z.v1", b"{}", Origin("id-a", "test", causation="id-1"), "run")])
