"""Asking a server for pages and filling in their forms, without a browser."""

from __future__ import annotations

import re

import httpx
from tests.app.cli_calls import until
from tests.app.server.served import Served


def begin(server: Served, brief: str, workflow: str = "loop", **given: object) -> str:
    """Begins a run; returns its id, once it can be looked at."""
    answered = server.client.post("/runs", json={"workflow": workflow, "brief": brief, **given})
    assert answered.status_code == 201, answered.text
    return str(answered.json()["run"])


def ended(server: Served, run: str) -> None:
    """Returns once the run has ended."""
    until(lambda: server.get(f"/runs/{run}")["status"] == "ended")


def html(server: Served, address: str, status: int = 200) -> str:
    """The page at an address, with its query, which is answered with this status."""
    answered = httpx.get(server.url + address, follow_redirects=True, timeout=60)
    assert answered.status_code == status, answered.text
    return answered.text


def send(server: Served, address: str, **form: str) -> str:
    """What a form is answered with that a page sends to this address."""
    word = re.findall(r'"X-CSRF-Token": "(\w+)"', html(server, "/runs"))[0]
    headers = {"X-CSRF-Token": word, "HX-Request": "true"}
    return httpx.post(server.url + address, data=form, headers=headers, timeout=60).text
