"""Workers by HTTP: requests are leased, extended, answered and given back, by those who may."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.app.cli_calls import begin, document, environment, until
from tests.app.server.served import LOOP, Served, served
from tests.app.server.test_submitting import begun, ended, events, send
from tests.forked import Forked, fork

ROOT = Path(__file__).parents[3]

PLAN = """
name: away
steps:
  - generate: {actor: source}
  - critique: {actor: sentences, timeout: 40s, retry: {attempts: 1}}
"""
JUDGE = "critic.sentences"


@pytest.fixture
def server(home: Path) -> Iterator[Served]:
    (home / "away.yaml").write_text(PLAN)
    (home / "loop.py").write_text(LOOP)
    with served(home, "away.yaml", "--elsewhere", JUDGE) as running:
        yield running


def leased(server: Served, actor: str = JUDGE, wait: float = 20, seconds: float = 60) -> dict[str, Any]:
    answered = send(server, "/requests/lease", {"actor": actor, "wait": wait, "seconds": seconds})
    assert answered.status_code == 200, answered.text
    return dict(answered.json())


def critique(command: dict[str, Any], score: float = 0.75, **other: Any) -> dict[str, Any]:
    """The outcome that answers a command, as a CloudEvent."""
    request, draft = command["data"]["request"], command["data"]["draft"]
    said = {"critic": "sentences", "score": score}
    data = {name: request[name] for name in ("run", "path", "attempt")} | {
        "draft": {"version": draft["version"], "sha256": draft["sha256"]},
        "critique": said,
    }
    return {"specversion": "1.0", "type": "outcome.critiqued.v1", "data": data | other}


def answer(server: Served, lease: dict[str, Any], given: dict[str, Any]) -> httpx.Response:
    return send(server, f"/leases/{lease['lease']}/answer", given)


def test_a_worker_that_asks_by_http_does_its_part_of_a_run(server: Served) -> None:
    run = begun(server, "Tides. Waves.", workflow="away")
    lease = leased(server)
    command = lease["command"]
    assert (command["type"], command["subject"], lease["delivery"]) == ("draft.critique.v1", run, 1)
    assert command["data"]["draft"]["text"] == "Tides. Waves."
    assert answer(server, lease, critique(command)).json() == {"lease": lease["lease"], "in_time": True}
    assert ended(server, run)["outcome"] == "accepted"
    (judged,) = [each for each in events(run) if each["name"] == "draft.critiqued.v1"]
    assert judged["actor"] == "critic sentences (not authenticated)"
    assert judged["causation"] == command["id"]
    again = answer(server, lease, critique(command))
    assert (again.status_code, again.json()["type"]) == (409, "urn:redraft:problem:lease-ended")


@pytest.mark.check
def test_an_answer_that_was_acknowledged_outlives_a_server_that_is_killed(home: Path) -> None:
    (home / "away.yaml").write_text(PLAN)
    for _ in range(4):
        with served(home, "away.yaml", "--elsewhere", JUDGE) as server:
            run = begun(server, workflow="away")
            lease = leased(server)
            assert answer(server, lease, critique(lease["command"])).status_code == 200
            server.process.kill()
            server.process.wait(30)
        assert "draft.critiqued.v1" in [each["name"] for each in events(run)]


@pytest.mark.check
def test_an_answer_that_cannot_be_recorded_now_is_told_so(server: Served, home: Path) -> None:
    run = begun(server, workflow="away")
    lease = leased(server)
    with closing(sqlite3.connect(home / "store.db", isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        taken = answer(server, lease, critique(lease["command"]))
        assert (taken.status_code, taken.json()["in_time"]) == (202, True)
        busy.execute("ROLLBACK")
    assert ended(server, run)["outcome"] == "accepted"


def test_who_waits_gets_a_request_as_soon_as_there_is_one_and_nothing_at_the_end_of_the_wait(server: Served) -> None:
    none = send(server, "/requests/lease", {"actor": JUDGE, "wait": 0})
    assert (none.status_code, none.content) == (204, b"")
    found: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: found.append(leased(server, wait=30)))
    waiting.start()
    run = begun(server, workflow="away")
    waiting.join(30)
    assert [each["command"]["subject"] for each in found] == [run]


def test_a_lease_that_ends_gives_its_request_back_and_a_late_answer_still_counts(server: Served) -> None:
    run = begun(server, workflow="away")
    first = leased(server, seconds=1)
    second = leased(server, wait=30, seconds=60)
    assert (first["command"]["id"], second["delivery"]) == (second["command"]["id"], 2)
    extended = send(server, f"/leases/{first['lease']}/extend", {"seconds": 60})
    assert (extended.status_code, extended.json()["type"]) == (409, "urn:redraft:problem:lease-ended")
    assert answer(server, first, critique(first["command"], 0.5)).json()["in_time"] is False
    assert ended(server, run)["score"] == 0.5
    assert answer(server, second, critique(second["command"], 0.9)).status_code == 200
    assert server.get(f"/runs/{run}")["score"] == 0.5


def test_a_lease_is_extended_to_the_end_of_its_step_and_no_further(server: Served) -> None:
    begun(server, workflow="away")
    lease = leased(server, seconds=1)
    longer, longest = (
        send(server, f"/leases/{lease['lease']}/extend", {"seconds": seconds}).json()["until"] for seconds in (30, 600)
    )
    assert lease["until"] < longer < longest
    again = send(server, f"/leases/{lease['lease']}/extend", {"seconds": 500}).json()["until"]
    assert abs(float(again[17:19]) - float(longest[17:19])) in (0, 1, 59)
    assert again[:16] == longest[:16]
    assert answer(server, lease, critique(lease["command"])).json()["in_time"]


def test_what_is_given_back_is_asked_for_again_or_becomes_a_dead_letter(server: Served) -> None:
    begun(server, workflow="away")
    lease = leased(server)
    assert send(server, f"/leases/{lease['lease']}/release", {"reason": "busy"}).status_code == 200
    again = leased(server)
    assert again["delivery"] == 2
    refused = send(server, f"/leases/{again['lease']}/release", {"reason": "cannot", "requeue": False})
    assert refused.status_code == 200
    until(lambda: bool(server.get("/dead-letters")))
    (letter,) = server.get("/dead-letters")
    assert "cannot" in letter["reason"]


def test_who_hangs_up_while_waiting_takes_no_request_along(server: Served) -> None:
    with httpx.Client(base_url=server.client.base_url, timeout=0.5) as impatient, pytest.raises(httpx.ReadTimeout):
        impatient.post("/requests/lease", json={"actor": JUDGE, "wait": 60})
    run = begun(server, workflow="away")
    lease = leased(server)
    assert lease["command"]["subject"] == run


@pytest.mark.parametrize(
    ("other", "status", "detail"),
    [
        ({"type": "outcome.refined.v1"}, 422, "does not answer a critic's request"),
        (
            {"type": "run.cancel.v1", "data": {"run": "x", "reason": "", "by": ""}},
            422,
            "does not answer a critic's request",
        ),
        ({"type": "nothing.v1"}, 422, "cannot be read"),
        (
            {
                "type": "outcome.failed.v1",
                "data": {"run": "x", "path": "p", "attempt": 1, "kind": "error", "message": ""},
            },
            422,
            "not those of the leased request",
        ),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_and_the_lease_goes_on(
    server: Served, other: dict[str, Any], status: int, detail: str
) -> None:
    run = begun(server, workflow="away")
    lease = leased(server)
    refused = answer(server, lease, critique(lease["command"]) | other)
    assert (refused.status_code, detail in refused.json()["detail"]) == (status, True), refused.text
    failed = critique(lease["command"])
    failed["data"] = {name: failed["data"][name] for name in ("run", "path", "attempt")} | {
        "kind": "error",
        "message": "no dictionary",
        "retryable": False,
    }
    assert answer(server, lease, failed | {"type": "outcome.failed.v1"}).json()["in_time"]
    assert ended(server, run)["outcome"] == "failed"


def test_an_answer_about_another_draft_is_refused_and_the_lease_goes_on(server: Served) -> None:
    """No coordinator takes it: the step would wait until its answer is overdue."""
    run = begun(server, workflow="away")
    lease = leased(server)
    other = critique(lease["command"])
    other["data"] |= {"draft": other["data"]["draft"] | {"sha256": "0" * 64}}
    refused = answer(server, lease, other)
    assert (refused.status_code, "the answer's draft" in refused.json()["detail"]) == (422, True), refused.text
    assert answer(server, lease, critique(lease["command"])).json()["in_time"]
    assert ended(server, run)["outcome"] == "accepted"


def test_a_token_works_for_the_actors_that_it_names_and_the_record_says_so(server: Served) -> None:
    run = begun(server, workflow="away")
    made = {
        name: document("token", "create", name, "--scope", "work", "--actor", actor)
        for name, actor in (("bot", JUDGE), ("other", "critic.tone"), ("all", "critic"))
    }
    until(lambda: server.client.get("/runs").status_code == 401)

    def speaks(name: str) -> None:
        server.client.headers["Authorization"] = f"Bearer {made[name]['token']}"

    speaks("other")
    refused = send(server, "/requests/lease", {"actor": JUDGE, "wait": 0})
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:redraft:problem:scope")
    assert "this token is for critic.tone" in refused.json()["detail"]
    assert server.client.get("/runs").status_code == 403
    speaks("bot")
    lease = leased(server)
    speaks("all")
    assert answer(server, lease, critique(lease["command"])).status_code == 409
    speaks("bot")
    assert answer(server, lease, critique(lease["command"])).json()["in_time"]
    until(lambda: any(each["name"] == "draft.critiqued.v1" for each in events(run)))
    (judged,) = [each for each in events(run) if each["name"] == "draft.critiqued.v1"]
    assert judged["actor"] == f"critic sentences (token {made['bot']['id']})"
    speaks("all")
    assert send(server, "/requests/lease", {"actor": JUDGE, "wait": 0}).status_code == 204
    assert send(server, "/requests/lease", {"actor": "refiner.x", "wait": 0}).status_code == 403
    for actor in ("judge", "critic.", "critic.\0", "critic.a\nb"):
        assert send(server, "/requests/lease", {"actor": actor, "wait": 0}).status_code == 422


@pytest.mark.check
def test_no_more_is_leased_to_one_than_its_share(home: Path) -> None:
    (home / "loop.py").write_text(LOOP)
    with served(home, "loop.py") as server:

        def wait() -> httpx.Response:
            return httpx.post(f"{server.url}/api/v1/requests/lease", json={"actor": "critic.x", "wait": 8}, timeout=60)

        statuses: list[int] = []
        asking = [threading.Thread(target=lambda: statuses.append(wait().status_code)) for _ in range(140)]
        for each in asking:
            each.start()
        for each in asking:
            each.join(60)
        assert set(statuses) == {204, 429}, server.log.read_text()[-3000:]
        assert statuses.count(204) == 128


def test_our_own_worker_works_by_http(home: Path) -> None:
    (home / "loop.py").write_text(LOOP)
    (home / "hold").touch()
    token = document("token", "create", "bot", "--scope", "work", "--actor", "critic.judge", "--actor", "refiner")
    submitter = document("token", "create", "ann", "--scope", "submit", "--scope", "read")
    given = ("loop.py", "--elsewhere", "critic.judge", "--elsewhere", "refiner.improve")
    with served(home, *given) as server:
        server.client.headers["Authorization"] = f"Bearer {submitter['token']}"
        run = begun(server)
        with working(home, server, str(token["token"])) as process:
            until((home / "at-judge").exists)
            process.terminate()
            until(lambda: "draining" in (home / "worker.log").read_text())
            process.terminate()  # it stops at once, and gives its request back
            assert process.wait(30) != 0
        (home / "hold").unlink()
        with working(home, server, str(token["token"])) as process:
            assert ended(server, run)["outcome"] == "accepted"
            process.terminate()
            assert process.wait(30) == 0
    judged = [each for each in events(run) if each["name"] == "draft.critiqued.v1"]
    assert {each["actor"] for each in judged} == {f"critic judge (token {token['id']})"}
    assert document("audit", run, "--verify")["verified"]


@pytest.mark.check
def test_a_worker_by_http_is_seen_and_stops_when_its_run_is_cancelled(home: Path) -> None:
    held = """    try:
        while (HERE / "hold").exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        (HERE / "stopped").touch()
        raise
"""
    (home / "loop.py").write_text(
        LOOP.replace('    while (HERE / "hold").exists():\n        await asyncio.sleep(0.01)\n', held)
    )
    (home / "hold").touch()
    (home / "beside").mkdir()
    token = document("token", "create", "bot", "--scope", "work", "--actor", "critic.judge", "--actor", "refiner")
    person = document("token", "create", "ann", "--scope", "submit", "--scope", "read", "--scope", "operate")
    with served(home, "loop.py", "--elsewhere", "critic.judge", "--elsewhere", "refiner.improve") as server:
        server.client.headers["Authorization"] = f"Bearer {person['token']}"
        run = begun(server)
        with working(home, server, str(token["token"])):
            until((home / "at-judge").exists)
            (judge,) = [each for each in server.get("/actors") if each["actor"] == "judge"]
            (seen,) = judge["by_http"]
            assert seen["who"] == f"bot (token {token['id']})"
            assert seen["since"]
            (told,) = [each for each in document("stats", "actors") if each["actor"] == "judge"]
            assert told["by_http"] == judge["by_http"]
            (check,) = [each for each in document("doctor")["checks"] if each["name"] == "by http"]
            assert f"critic.judge by bot (token {token['id']})" in check["message"]
            with served(home / "beside", "--read-only", REDRAFT_STORE=f"sqlite:///{home / 'store.db'}") as other:
                other.client.headers["Authorization"] = f"Bearer {person['token']}"
                (same,) = [each for each in other.get("/actors") if each["actor"] == "judge"]
            assert same["by_http"] == judge["by_http"], "other servers of the store know it too"
            assert send(server, f"/runs/{run}/cancel", {}).status_code == 200
            until((home / "stopped").exists)
            (home / "hold").unlink()
            other = begun(server, "Waves")
            assert ended(server, other)["outcome"] == "accepted", "the worker goes on with others"
    assert ended_as(run) == "cancelled"
    assert "lease ended" not in (home / "serve.log").read_text(), "nobody gets the request again"


def ended_as(run: str) -> str:
    return str(events(run)[-1]["data"]["outcome"])


def test_who_extends_a_lease_is_told_that_its_run_was_cancelled(server: Served) -> None:
    run = begun(server, "Tides. Waves.", workflow="away")
    lease = leased(server)
    extended = send(server, f"/leases/{lease['lease']}/extend", {}).json()
    assert extended["cancelled"] is False
    send(server, f"/runs/{run}/cancel", {})
    told = send(server, f"/leases/{lease['lease']}/extend", {}).json()
    assert told["cancelled"] is True
    late = answer(server, lease, critique(lease["command"]))
    assert (late.status_code, late.json()["type"]) == (409, "urn:redraft:problem:lease-ended")
    assert send(server, "/requests/lease", {"actor": JUDGE, "wait": 0}).status_code == 204, "it is in no queue any more"


@pytest.mark.check
@pytest.mark.parametrize(
    ("actor", "given", "told"),
    [
        ("loop.py:judge", "wrong", "REDRAFT_SERVER_TOKEN is not known there, or has ended; `redraft token create NAME"),
        ("loop.py:judge", "", "REDRAFT_SERVER_TOKEN is not set; `redraft token create NAME --scope work --actor"),
        ("loop.py:judge", "refiner", "may not work for critic.judge"),
    ],
)
def test_a_worker_that_is_not_let_in_says_why_and_ends(home: Path, actor: str, given: str, told: str) -> None:
    (home / "loop.py").write_text(LOOP)
    made = document("token", "create", "bot", "--scope", "work", "--actor", "refiner.improve")
    text = str(made["token"]) if given == "refiner" else given
    with served(home, "loop.py") as server:
        said = begin("worker", actor, "--url", server.url, folder=home, REDRAFT_SERVER_TOKEN=text)
    assert said.code == 2
    assert told in said.err.splitlines()[-1]
    assert "Traceback" not in said.err


@contextmanager
def working(home: Path, server: Served, token: str) -> Iterator[Forked]:
    """`redraft worker` for the critic and the refiner of the loop, by HTTP, until the block ends."""
    given = environment(home, {"REDRAFT_SERVER_TOKEN": token, "REDRAFT_LOG_FORMAT": "json"})
    command = ("redraft", "worker", "loop.py:judge", "loop.py:improve", "--url", server.url)
    with (home / "worker.log").open("ab") as file:
        process = fork(*command, folder=home, environment=given, stderr=file.fileno())
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(30)


COUNTED = """
name: counted
state: {counted: 0}
steps:
  - generate: {actor: source}
  - repeat:
      until: state.words >= 2
      max_iterations: 3
      body:
        - step: {actor: count_words, writes: [words, counted]}
        - refine: {actor: improve}
"""
IMPROVE = "from redraft.actors import refiner\n\n@refiner\ndef improve(draft): return draft.text + ' more'\n"
COUNTER = "step.count_words"


def completed(lease: dict[str, Any], **values: object) -> dict[str, Any]:
    request = lease["command"]["data"]["request"]
    data = {name: request[name] for name in ("run", "path", "attempt")} | {"state": values}
    return {"specversion": "1.0", "type": "outcome.completed.v1", "data": data}


def test_a_free_step_is_leased_and_answered_with_the_values_that_it_changes(home: Path) -> None:
    (home / "counted.yaml").write_text(COUNTED)
    (home / "improve.py").write_text(IMPROVE)
    with served(home, "counted.yaml", "--actors", "improve.py", "--elsewhere", COUNTER) as server:
        run = begun(server, "Tides", workflow="counted")
        lease = leased(server, COUNTER)
        data = lease["command"]["data"]
        assert (lease["command"]["type"], data["draft"]["text"]) == ("step.run.v1", "Tides")
        assert data["request"]["state"] == {"counted": 0}
        wrong = answer(server, lease, completed(lease) | {"type": "outcome.critiqued.v1"})
        assert wrong.status_code == 422
        refused = answer(server, lease, completed(lease) | {"type": "outcome.published.v1"})
        assert refused.status_code == 422
        assert answer(server, lease, completed(lease, words=1, counted=1)).json()["in_time"]
        again = leased(server, COUNTER)
        assert again["command"]["data"]["request"]["state"] == {"counted": 1, "words": 1}
        assert answer(server, again, completed(again, words=2, counted=2)).json()["in_time"]
        assert ended(server, run)["outcome"] == "accepted"
    changed = [each for each in events(run) if each["name"] == "state.changed.v1"]
    assert [each["data"]["state"] for each in changed] == [{"words": 1, "counted": 1}, {"words": 2, "counted": 2}]
    assert changed[0]["actor"] == "step count_words (not authenticated)"


@pytest.mark.check
def test_the_free_step_in_javascript_that_the_page_shows_works_by_http(home: Path) -> None:
    page = (ROOT / "docs/other-languages.md").read_text()
    (home / "step.mjs").write_text(page.partition('```js title="step.mjs"\n')[2].partition("```")[0])
    (home / "counted.yaml").write_text(COUNTED)
    (home / "improve.py").write_text(IMPROVE)
    with served(home, "counted.yaml", "--actors", "improve.py", "--elsewhere", COUNTER) as server:
        own = {**os.environ, "REDRAFT_SERVER_URL": server.url}
        with subprocess.Popen(["node", "step.mjs"], cwd=home, env=own) as process:
            try:
                run = begun(server, "Tides", workflow="counted")
                assert ended(server, run)["outcome"] == "accepted"
            finally:
                process.kill()
    changed = [each["data"]["state"] for each in events(run) if each["name"] == "state.changed.v1"]
    assert changed == [{"words": 1, "counted": 1}, {"words": 2, "counted": 2}]


@pytest.mark.check
def test_the_critic_in_javascript_that_the_page_shows_works_by_http(home: Path) -> None:
    page = (ROOT / "docs/other-languages.md").read_text()
    program = page.partition('```js title="critic-http.mjs"\n')[2].partition("```")[0]
    (home / "critic-http.mjs").write_text(program)
    (home / "short.yaml").write_text(PLAN)
    token = document("token", "create", "bot", "--scope", "work", "--actor", JUDGE)
    ann = document("token", "create", "ann", "--scope", "submit", "--scope", "read")
    with served(home, "short.yaml", "--elsewhere", JUDGE) as server:
        server.client.headers["Authorization"] = f"Bearer {ann['token']}"
        own = {**os.environ, "REDRAFT_SERVER_URL": server.url, "REDRAFT_SERVER_TOKEN": str(token["token"])}
        with subprocess.Popen(["node", "critic-http.mjs"], cwd=home, env=own) as process:
            try:
                run = begun(server, "Tides. " + "word " * 30 + "end. Waves.", workflow="away")
                assert ended(server, run)["score"] == 0.5
            finally:
                process.kill()
