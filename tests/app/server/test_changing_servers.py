"""Clients that change from one server of a store to another: one run for a key, and each event once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.app.cli_calls import said, until
from tests.app.deployments import Deployment, deployment
from tests.app.server.served import LOOP, served
from tests.app.server.test_deployed import url_of

pytestmark = pytest.mark.check

RUNS = 12


@pytest.fixture
def deployed(tmp_path: Path, postgres_url: str) -> Iterator[Deployment]:
    with deployment(tmp_path, postgres_url) as made:
        made.settings = {"REDRAFT_HTTP": '{"port": 0}', "REDRAFT_LOG_FORMAT": "json"}
        yield made


@pytest.fixture
def two(deployed: Deployment) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Two servers beside `redraft up`, asked with one token."""
    deployed.start("up", "up", "loop.py:loop")
    for name in ("one", "other"):
        deployed.start(name, "serve", "loop.py:loop")
    token = deployed.json("token", "create", "ann", "--scope", "read", "--scope", "submit")["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    urls = [url_of(deployed, name) for name in ("one", "other")]
    with ExitStack() as stack:
        one, other = (stack.enter_context(httpx.Client(base_url=url, headers=bearer, timeout=60)) for url in urls)
        yield one, other


def together(clients: Sequence[httpx.Client], given: Sequence[tuple[dict[str, Any], str]]) -> list[httpx.Response]:
    """What the clients, by turns, are answered when all of these are submitted at once, each with its key."""

    def submit(client: httpx.Client, body: dict[str, Any], key: str) -> httpx.Response:
        return client.post("/runs", json=body, headers={"Idempotency-Key": key})

    with ThreadPoolExecutor(len(given)) as pool:
        asked = [pool.submit(submit, client, *each) for client, each in zip(cycle(clients), given, strict=False)]
        return [each.result() for each in asked]


def read_on(clients: Sequence[httpx.Client], last: int, wanted: int, **filters: Any) -> list[dict[str, Any]]:
    """So many events, of which the clients by turns are asked for a few, each after the last that another sent."""
    found: list[dict[str, Any]] = []
    if not wanted:  # all had come before the server was killed
        return found
    for few, client in zip(cycle((1, 7, 3)), cycle(clients), strict=False):
        headers = {"Last-Event-ID": str(last)}
        with client.stream("GET", "/events/stream", params=filters, headers=headers, timeout=60) as stream:
            assert stream.status_code == 200, stream.read()
            read = 0
            for line in stream.iter_lines():
                name, _, value = line.partition(": ")
                assert name != "event", value
                if name == "id":
                    last = int(value)
                elif name == "data":
                    found.append(json.loads(value))
                    read += 1
                    if read == few or len(found) == wanted:
                        break
        if len(found) == wanted:
            return found
    raise AssertionError("there are clients always")


def log_of(client: httpx.Client, after: int, **filters: Any) -> list[dict[str, Any]]:
    """What the log has after a position, by pages."""
    found: list[dict[str, Any]] = []
    while True:
        page = client.get("/events", params={"after": after, "limit": 100, **filters}).json()
        if not page["events"]:
            return found
        found += page["events"]
        after = page["position"]


def test_a_key_that_is_sent_to_both_at_once_begins_one_run(
    deployed: Deployment, two: tuple[httpx.Client, httpx.Client]
) -> None:
    given = [({"workflow": "loop", "brief": "a text"}, f"key {number // 4}") for number in range(4 * RUNS)]
    answered = together(two, given)
    assert {each.status_code for each in answered} == {201}
    runs = [each.json()["run"] for each in answered]
    assert [len(set(runs[at : at + 4])) for at in range(0, len(runs), 4)] == [1] * RUNS
    deployed.ended(*set(runs))
    begun = log_of(two[0], 0, type="run.started")
    assert sorted(each["run"] for each in begun) == sorted(set(runs))
    assert [each.get("/dead-letters").json() for each in two] == [[], []]


def test_a_key_of_another_brief_at_the_other_server_is_refused_also_at_once(
    deployed: Deployment, two: tuple[httpx.Client, httpx.Client]
) -> None:
    bodies = [{"workflow": "loop", "brief": brief} for brief in ("a text", "another")]
    answered = together(two, [(body, f"key {number}") for number in range(RUNS) for body in bodies])
    for at in range(0, len(answered), 2):
        pair = answered[at : at + 2]
        assert sorted(each.status_code for each in pair) == [201, 422]
        begun, refused = sorted(pair, key=lambda each: each.status_code)
        assert refused.json()["type"] == "urn:redraft:problem:input"
        (first,) = log_of(two[0], 0, type="run.started", run=begun.json()["run"])
        assert first["data"]["brief"]["text"] == bodies[pair.index(begun)]["brief"]
    late = two[0].post("/runs", json=bodies[0] | {"brief": "a third"}, headers={"Idempotency-Key": "key 0"})
    assert (late.status_code, "was used for another brief" in late.json()["detail"]) == (422, True)


def test_who_changes_servers_by_the_last_id_has_each_event_once(
    deployed: Deployment, two: tuple[httpx.Client, httpx.Client]
) -> None:
    one, other = two
    before = one.get("/events", params={"after": 0}).json()["position"]
    given = [({"workflow": "loop", "brief": "a text"}, f"key {number}") for number in range(RUNS)]
    with ThreadPoolExecutor(2) as pool:
        ends = pool.submit(read_on, two, before, RUNS, type="run.ended")
        submitted = pool.submit(together, two, given)
        runs = [each.json()["run"] for each in submitted.result()]
        assert {each["run"] for each in ends.result()} == set(runs)
    known = log_of(one, before)
    assert log_of(other, before) == known
    for filters in ({}, {"type": "draft.critiqued"}, {"run": runs[3]}, {"workflow": "loop"}):
        wanted = log_of(one, before, **filters)
        assert read_on(two, before, len(wanted), **filters) == wanted, filters
    head = known[-1]["position"]
    with one.stream("GET", "/events/stream", headers={"Last-Event-ID": str(head + 1000)}) as ahead:
        assert (ahead.status_code, json.loads(ahead.read())["type"]) == (409, "urn:redraft:problem:another-log")


def test_who_reads_while_two_coordinators_record_has_each_event_once_though_a_server_is_killed(
    deployed: Deployment, two: tuple[httpx.Client, httpx.Client]
) -> None:
    one, other = two
    deployed.start("beside", "coordinator")
    deployed.serving("beside")
    (deployed.folder / "hold").touch()
    together(two, [({"workflow": "loop", "brief": "a text"}, f"key {number}") for number in range(RUNS)])
    with ThreadPoolExecutor(2) as pool:
        by_turns = pool.submit(read_on, two, 0, 5 * RUNS)
        ends = pool.submit(read_on, [other], 0, RUNS, type="run.ended")
        (deployed.folder / "hold").unlink()
        found = by_turns.result()
        ends.result()
    known = log_of(other, 0)
    assert found == known[: len(found)]
    seen, last = read_until_killed(deployed, one, found[0]["position"])
    rest = read_on([other], last, len(known) - 1 - len(seen))
    assert [*found[:1], *seen, *rest] == known


def read_until_killed(deployed: Deployment, client: httpx.Client, last: int) -> tuple[list[dict[str, Any]], int]:
    """What a server sent after a position until it was killed amid that, and the position of the last event."""
    seen: list[dict[str, Any]] = []
    headers = {"Last-Event-ID": str(last)}
    with suppress(httpx.TransportError), client.stream("GET", "/events/stream", headers=headers) as stream:
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name == "data":
                seen.append(json.loads(value))
                if len(seen) == 5:
                    deployed.processes[1].kill()
    return seen, seen[-1]["position"]


def test_two_servers_that_only_look_at_one_file_say_the_same(home: Path) -> None:
    (home / "loop.py").write_text(LOOP)
    said("run", "loop.py:loop", "Tides", "-q")
    folders = [home / name for name in ("one", "other")]
    for each in folders:
        each.mkdir()
    place = {"REDRAFT_STORE": f"sqlite:///{home / 'store.db'}"}
    token = json.loads(said("token", "create", "ann", "--scope", "read", "--json", "--store", place["REDRAFT_STORE"]))
    bearer = {"Authorization": f"Bearer {token['token']}"}
    with ExitStack() as stack:
        servers = [stack.enter_context(served(each, "--read-only", **place)) for each in folders]
        for looking in servers:
            assert looking.client.get("/runs").status_code == 401
            looking.client.headers.update(bearer)
        one, other = (looking.client for looking in servers)
        assert one.get("/runs").json() == other.get("/runs").json()
        assert {each.post("/runs", json={"workflow": "loop", "brief": "x"}).status_code for each in (one, other)} == {
            405
        }
        with ThreadPoolExecutor(1) as pool:
            ends = pool.submit(read_on, (one, other), 0, 4, type="run.ended")
            for number in range(3):
                said("run", "loop.py:loop", f"Waves {number}", "-q", "--store", place["REDRAFT_STORE"])
            assert len({each["run"] for each in ends.result()}) == 4
        known = log_of(one, 0)
        assert log_of(other, 0) == known
        assert read_on((one, other), 0, len(known)) == known
        said("token", "revoke", token["id"], "--store", place["REDRAFT_STORE"])
        until(lambda: [each.get("/runs").status_code for each in (one, other)] == [401, 401])
