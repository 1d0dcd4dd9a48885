"""`redraft serve` as a client of a deployment on RabbitMQ, and `redraft up --serve`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import aio_pika
import httpx
import pytest
from aio_pika.exceptions import ChannelNotFoundEntity
from tests.app.deployments import Deployment, deployment


@pytest.fixture
def deployed(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        made.settings = {"REDRAFT_HTTP": '{"port": 0}', "REDRAFT_LOG_FORMAT": "json"}
        yield made


def url_of(deployed: Deployment, log: str) -> str:
    def found() -> list[str]:
        return [line["url"] for line in deployed.lines(log) if line["event"] == "listening"]

    deployed.until("it listens", lambda: bool(found()))
    return f"{found()[-1]}/api/v1"


def test_up_serves_too_and_runs_are_begun_steered_and_seen(deployed: Deployment) -> None:
    (deployed.folder / "hold").touch()
    deployed.start("up", "up", "loop.py:loop", "--serve")
    with httpx.Client(base_url=url_of(deployed, "up"), timeout=60) as client:
        begun = client.post("/runs", json={"workflow": "loop", "brief": "a text"}, headers={"Idempotency-Key": "k"})
        run = begun.json()["run"]
        assert begun.status_code == 201
        deployed.until("it judges", lambda: any("judge" in each for each in deployed.worked()))
        assert {each["consumers"] for each in client.get("/actors").json()} == {1}
        guided = client.post(f"/runs/{run}/guide", json={"advice": "!"}).json()
        assert (guided["event"], guided["by"]) == ("run.guided.v1", "somebody (not authenticated)")
        (deployed.folder / "hold").unlink()
        deployed.ended(run)
        deployed.until("it is shown", lambda: client.get(f"/runs/{run}").json()["outcome"] == "accepted")
        again = client.post("/runs", json={"workflow": "loop", "brief": "a text"}, headers={"Idempotency-Key": "k"})
        assert again.json()["run"] == run


@pytest.mark.check
def test_dead_letters_are_listed_shown_retried_and_discarded(deployed: Deployment) -> None:
    deployed.start("serve", "serve", "loop.py:loop")
    with httpx.Client(base_url=url_of(deployed, "serve"), timeout=60) as client:
        deployed.start("coordinator", "coordinator")
        deployed.serving("coordinator")
        assert client.post("/runs/01aaaaaaaaaaaaaaaaaaaaaaaa/guide", json={"advice": "x"}).status_code == 404
        deployed.call("submit", "loop.py:loop", "a text", "--key", "k")
        deployed.until("it is listed", lambda: client.get("/runs").json()["count"] == 1)
        deployed.call("submit", "loop.py:loop", "another text", "--key", "k")
        deployed.until("a letter is there", lambda: len(client.get("/dead-letters").json()) == 1)
        (letter,) = client.get("/dead-letters").json()
        assert [letter] == deployed.json("dead-letters", "list")
        assert letter["users"] == [urlsplit(deployed.bus).username]
        shown = client.get(f"/dead-letters/{letter['id']}").json()
        assert json.loads(shown["body"])["brief"]["text"] == "another text"
        assert client.post(f"/dead-letters/{letter['id']}/retry").json() == {"retried": [letter["id"]]}
        deployed.until("it is back", lambda: len(client.get("/dead-letters").json()) == 1)
        (back,) = client.get("/dead-letters").json()
        assert client.delete(f"/dead-letters/{back['id']}").json() == {"discarded": [back["id"]]}
        assert client.get("/dead-letters").json() == []
        assert client.delete(f"/dead-letters/{back['id']}").status_code == 404


def test_a_worker_by_http_does_its_part_of_a_run_of_the_deployment(deployed: Deployment) -> None:
    deployed.start("serve", "serve", "loop.py:loop")
    with httpx.Client(base_url=url_of(deployed, "serve"), timeout=60) as client:
        deployed.start("coordinator", "coordinator")
        deployed.serving("coordinator")
        deployed.start("others", "worker", "loop.py:write", "loop.py:improve", "loop.py:save")
        deployed.settings = {**deployed.settings, "REDRAFT_BUS": "local:"}
        deployed.start("critic", "worker", "loop.py:judge", "--url", str(client.base_url).removesuffix("/api/v1/"))
        run = client.post("/runs", json={"workflow": "loop", "brief": "a text"}).json()["run"]
        deployed.ended(run)
        judged = [each for each in deployed.history(run) if each.name.startswith("draft.critiqued")]
        assert {each.actor for each in judged} == {"critic judge (not authenticated)"}


@pytest.mark.check
def test_a_request_that_waits_as_the_server_is_told_to_end_is_answered(deployed: Deployment) -> None:
    """Nobody coordinates: what was begun waits in the inbox, and is said to be on its way."""
    server = deployed.start("serve", "serve", "loop.py:loop")

    async def waiting() -> int:
        async with await aio_pika.connect(deployed.bus) as connection:
            channel = await connection.channel()
            try:
                inbox = await channel.declare_queue(f"{deployed.prefix}.inbox", passive=True)
            except ChannelNotFoundEntity:  # it is made with the first message
                return 0
            return inbox.declaration_result.message_count or 0

    with httpx.Client(base_url=url_of(deployed, "serve"), timeout=60) as client, ThreadPoolExecutor() as threads:
        asked = threads.submit(client.post, "/runs", json={"workflow": "loop", "brief": "a text"})
        deployed.until("it is sent", lambda: asyncio.run(waiting()) == 1)
        server.terminate()
        answered = asked.result(60)
    assert (answered.status_code, answered.json()["recorded"]) == (202, False)
    assert server.wait(60) == 0
