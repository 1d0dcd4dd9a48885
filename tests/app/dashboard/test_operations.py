"""What is set aside is shown with its reason, and is retried and discarded from its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.app.cli_calls import document, environment, until
from tests.app.dashboard.asking import begin, ended, html, send
from tests.app.deployments import Deployment, deployment
from tests.app.server.served import Served
from tests.app.server.test_deployed import url_of
from tests.forked import fork

REFUSES = """
def refuse(event):
    raise ValueError("<b>not</b> today")
"""


@pytest.fixture
def deployed(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        made.settings = {"REDRAFT_HTTP": '{"port": 0}', "REDRAFT_LOG_FORMAT": "json"}
        yield made


def test_a_dead_letter_is_retried_and_discarded(deployed: Deployment) -> None:
    process = deployed.start("serve", "serve", "loop.py:loop")
    api = url_of(deployed, "serve")
    deployed.start("coordinator", "coordinator")
    deployed.serving("coordinator")
    with httpx.Client(base_url=api, timeout=60) as client:
        deployed.call("submit", "loop.py:loop", "a text", "--key", "k")
        deployed.until("it is listed", lambda: client.get("/runs").json()["count"] == 1)
        deployed.call("submit", "loop.py:loop", "another text", "--key", "k")
        deployed.until("a letter is there", lambda: len(client.get("/dead-letters").json()) == 1)
        server = Served(process, deployed.folder, api.removesuffix("/api/v1"))
        (letter,) = client.get("/dead-letters").json()
        page = html(server, "/dead-letters")
        assert f'id="letter-{letter["id"]}"' in page
        assert f"redraft dead-letters show {letter['id']}" in page
        assert "back in its queue" in send(server, f"/dead-letters/{letter['id']}/retry")
        deployed.until("it is set aside again", lambda: len(client.get("/dead-letters").json()) == 1)
        (back,) = client.get("/dead-letters").json()
        assert "It is deleted" in send(server, f"/dead-letters/{back['id']}/discard")
        assert "No dead letters" in html(server, "/dead-letters")


def test_parked_events_are_retried_and_discarded(server: Served, folder: Path) -> None:
    ended(server, begin(server, "Tides"))
    (folder / "refuse.py").write_text(REFUSES)
    command = ("redraft", "subscribe", "refuse.py:refuse", "--name", "mailer", "--attempts", "1", "--type", "run.ended")
    with (folder / "subscribe.log").open("ab") as log:
        process = fork(*command, folder=folder, environment=environment(folder, {}), stderr=log.fileno())
        try:
            until(lambda: any(each["parked"] for each in document("subscriptions", "list")))
        finally:
            process.terminate()
            process.wait(30)
    (parked,) = server.get("/subscriptions/mailer/parked")
    page = html(server, "/subscriptions")
    assert "1 parked event" in page
    assert "&lt;b&gt;not&lt;/b&gt; today" in page
    assert "refuse.py:refuse" in page
    where = f"/subscriptions/mailer/parked/{parked['id']}"
    assert "To be tried again: 1" in send(server, f"{where}/retry")
    assert "Taken away: 1" in send(server, f"{where}/discard")
    assert "no event" in send(server, f"{where}/discard")
