"""`redraft serve` with the user of RabbitMQ that docs/deployment.md gives it: all that it does, and nothing more."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiormq
import httpx
import pytest
from aiormq.abc import AbstractChannel
from aiormq.exceptions import ChannelAccessRefused
from tests.app.deployments import Deployment
from tests.app.server.test_deployed import url_of
from tests.rabbit_users import Users, documented, rabbit_users


@pytest.fixture
def users() -> Iterator[Users]:
    with rabbit_users(documented()) as made:
        yield made


@pytest.fixture
def there(tmp_path: Path, users: Users) -> Iterator[Deployment]:
    stands = {users.names["server"]: ["operator", "critic"]}
    store, settings = f"sqlite:///{tmp_path / 'store.db'}", {"REDRAFT_USERS": json.dumps(stands)}
    found = Deployment(tmp_path, "redraft", store, "quorum", users.urls["coordinator"], settings)
    try:
        found.start("coordinator", "coordinator")
        found.serving("coordinator")
        found.start("others", "worker", "loop.py:write", "loop.py:improve", "loop.py:save")
        found.start("serve", "serve", "loop.py:loop", bus=users.urls["server"])
        yield found
    finally:
        found.stop()


@pytest.mark.check
def test_the_servers_user_does_all_that_the_server_does(there: Deployment) -> None:
    with httpx.Client(base_url=url_of(there, "serve"), timeout=60) as client:
        run = client.post("/runs", json={"workflow": "loop", "brief": "a text"}).json()["run"]
        assert client.post(f"/runs/{run}/guide", json={"advice": "!"}).json()["event"] == "run.guided.v1"
        lease = leased(client)
        assert client.post(f"/leases/{lease}/extend", json={}).json()["cancelled"] is False
        client.post(f"/leases/{lease}/release", json={"requeue": False})
        assert client.post(f"/dead-letters/{letter(there, client)}/retry").status_code == 200
        client.post(f"/leases/{leased(client)}/release", json={"requeue": False})
        assert client.delete(f"/dead-letters/{letter(there, client)}").status_code == 200
        assert {each["actor"] for each in client.get("/actors").json()} >= {"write", "judge"}
    assert [line for line in there.lines("serve") if line["level"] in ("warning", "error")] == []


def leased(client: httpx.Client) -> str:
    return str(client.post("/requests/lease", json={"actor": "critic.judge", "wait": 30}).json()["lease"])


def letter(there: Deployment, client: httpx.Client) -> str:
    there.until("a letter is there", lambda: len(client.get("/dead-letters").json()) == 1)
    return str(client.get("/dead-letters").json()[0]["id"])


FORBIDDEN: dict[str, Callable[[AbstractChannel], Awaitable[object]]] = {
    "announce an event": lambda it: it.basic_publish(b"{}", exchange="redraft.events", routing_key="x"),
    "read the inbox": lambda it: it.basic_get("redraft.inbox"),
    "empty the inbox": lambda it: it.queue_purge("redraft.inbox"),
    "make a queue": lambda it: it.queue_declare("redraft.critic.mine"),
    "delete a queue": lambda it: it.queue_delete("redraft.critic.judge"),
}


@pytest.mark.check
async def test_the_servers_user_does_no_more(there: Deployment, users: Users) -> None:
    connection = await aiormq.connect(users.urls["server"])
    try:
        for what, attempt in FORBIDDEN.items():
            channel = await connection.channel()
            with pytest.raises(ChannelAccessRefused):
                await attempt(channel)
            assert channel.is_closed, what
    finally:
        await connection.close()
