"""Beginning and steering runs over HTTP, in the server's own process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.app.cli_calls import document, said, spawn, until
from tests.app.server.served import LOOP, Served, served

WHOLE = '{"workflow":"loop","brief":"Tides"}'
NOT_UTF_8 = "the body is UTF-16 or UTF-32, or begins with a byte order mark; send UTF-8 without one"


@pytest.fixture
def folder(home: Path) -> Path:
    (home / "loop.py").write_text(LOOP)
    return home


@pytest.fixture
def server(folder: Path) -> Iterator[Served]:
    with served(folder, "loop.py") as running:
        yield running


@pytest.fixture(scope="module")
def resting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with one run, which has ended: for all that is refused."""
    home = tmp_path_factory.mktemp("resting")
    (home / "loop.py").write_text(LOOP)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{home / 'store.db'}")
        said("run", "loop.py:loop", "Tides", "-q")
        with served(home, "loop.py") as running:
            yield running


def send(server: Served, path: str, given: Any, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return server.client.post(path, json=given, headers=named)


def begun(server: Served, brief: str = "Tides", **given: Any) -> str:
    answered = send(server, "/runs", {"workflow": "loop", "brief": brief, **given})
    assert answered.status_code == 201, answered.text
    return str(answered.json()["run"])


def ended(server: Served, run: str) -> dict[str, Any]:
    until(lambda: server.get(f"/runs/{run}")["status"] == "ended")
    found = server.get(f"/runs/{run}")
    assert isinstance(found, dict)
    return found


def events(run: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said("events", "--run", run, "--json").splitlines()]


def test_a_run_that_was_begun_can_be_looked_at_and_ends(server: Served, folder: Path) -> None:
    answered = send(server, "/runs", {"workflow": "loop", "brief": "Tides", "tags": ["spring"], "max_iterations": 4})
    assert (answered.status_code, answered.json()["recorded"]) == (201, True)
    run = answered.json()["run"]
    assert answered.headers["location"] == f"/api/v1/runs/{run}"
    assert server.get(f"/runs/{run}")["tags"] == ["spring"]
    assert ended(server, run)["outcome"] == "accepted"
    assert (folder / "published.txt").read_text() == "Tides more more\n"
    assert events(run)[0]["actor"] == "somebody (not authenticated)"
    assert {each["consumers"] for each in server.get("/actors")} == {1}


@pytest.mark.check
def test_a_run_is_of_the_trace_of_the_request_that_begins_it(server: Served) -> None:
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    run = send(server, "/runs", {"workflow": "loop", "brief": "Tides"}, traceparent=caller).json()["run"]
    ended(server, run)
    assert {each["trace"][:35] for each in events(run)} == {caller[:35]}
    assert send(server, "/runs", {"workflow": "loop", "brief": "Tides"}, traceparent="00-no").status_code == 201


def test_the_same_key_is_the_same_run(server: Served) -> None:
    given = {"workflow": "loop", "brief": "Tides"}
    first, again = (send(server, "/runs", given, idempotency_key="notes-7").json()["run"] for _ in range(2))
    assert first == again
    other = send(server, "/runs", {**given, "brief": "Waves"}, idempotency_key="notes-7")
    assert other.status_code == 422
    assert "was used for another brief" in other.json()["detail"]
    empty = send(server, "/runs", given, idempotency_key="")
    assert (empty.status_code, empty.json()["detail"].partition(":")[0]) == (400, "Idempotency-Key")
    assert server.get("/runs")["count"] == 1


def test_a_key_with_other_tags_or_limits_is_refused_and_the_run_is_as_it_began(server: Served) -> None:
    given = {"workflow": "loop", "brief": "Tides", "tags": ["spring", "sea"], "max_iterations": 4}
    first = send(server, "/runs", given, idempotency_key="notes-7").json()["run"]
    ended(server, first)
    again = send(server, "/runs", {**given, "tags": ["sea", "spring"]}, idempotency_key="notes-7")
    assert (again.status_code, again.json()["run"]) == (201, first)
    for change, what in (
        ({"tags": ["sea"]}, "other tags"),
        ({"tags": []}, "other tags"),
        ({"max_iterations": 5}, "other limits"),
        ({"max_iterations": None}, "other limits"),
        ({"until": "score >= 0.5"}, "other limits"),
        ({"budget": "calls=3"}, "other limits"),
    ):
        refused = send(server, "/runs", {**given, **change}, idempotency_key="notes-7")
        told = f"key 'notes-7' was used for {what}: run {first}; give another key"
        assert (refused.status_code, refused.json().get("detail")) == (422, told)
    assert server.get("/runs")["count"] == 1


def test_a_key_of_a_fork_is_for_its_tags_and_its_changes_of_the_state_too(server: Served) -> None:
    run = begun(server)
    ended(server, run)
    given = {"at": 3, "tags": ["calm"], "state": {"tone": "calm"}}
    first, again = (send(server, f"/runs/{run}/fork", given, idempotency_key="fork") for _ in range(2))
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    for change, what in (({"tags": []}, "other tags"), ({"state": {"tone": "loud"}}, "another change of the state")):
        refused = send(server, f"/runs/{run}/fork", {**given, **change}, idempotency_key="fork")
        assert (refused.status_code, f"was used for {what}" in refused.json().get("detail", "")) == (422, True)


def test_a_key_that_is_sent_at_once_for_two_briefs_is_told_to_one_of_them(server: Served) -> None:
    keys = [f"notes-{number}" for number in range(6)]
    given = [({"workflow": "loop", "brief": brief}, key) for key in keys for brief in ("Tides", "Waves")]
    with ThreadPoolExecutor(len(given)) as pool:
        answered = list(pool.map(lambda each: send(server, "/runs", each[0], idempotency_key=each[1]), given))
    assert [each.status_code for each in answered].count(201) == len(keys)
    for (body, _), each in zip(given, answered, strict=True):
        if each.status_code == 201:
            assert events(each.json()["run"])[0]["data"]["brief"]["text"] == body["brief"]
        else:
            assert (each.status_code, "was used for another brief" in each.json()["detail"]) == (422, True)


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        ({"at": 3}, {"at": 4}, "another parent"),
        ({"at": 3, "tags": ["sea"]}, {"at": 3, "tags": []}, "other tags"),
        ({"at": 3, "state": {"tone": "calm"}}, {"at": 3, "state": {"tone": "loud"}}, "another change of the state"),
    ],
)
def test_a_key_that_is_sent_at_once_for_two_forks_is_told_to_one_of_them(
    server: Served, one: Any, other: Any, what: str
) -> None:
    run = begun(server)
    ended(server, run)
    with ThreadPoolExecutor(4) as pool:
        forked = pool.map(
            lambda given: send(server, f"/runs/{run}/fork", given, idempotency_key="fork"), (one, other) * 2
        )
        answered = list(forked)
    assert sorted(each.status_code for each in answered) == [201, 201, 422, 422]
    assert {f"was used for {what}" in each.json().get("detail", "") for each in answered[:2]} == {True, False}


def test_a_batch_that_is_sent_again_begins_nothing_more(server: Served) -> None:
    given = {"workflow": "loop", "briefs": ["Tides", {"text": "Waves"}, "Tides"], "tags": ["batch"]}
    first, again = (send(server, "/batches", given).json() for _ in range(2))
    assert len({each["run"] for each in first}) == 3
    assert first == again
    assert all(each["recorded"] for each in first)
    assert {server.get(f"/runs/{each['run']}")["workflow"] for each in first} == {"loop"}
    until(lambda: server.get("/runs", tag="batch", status="ended")["count"] == 3)
    refused = send(server, "/batches", {**given, "tags": []})
    assert (refused.status_code, "was used for other tags" in refused.text) == (422, True)
    other = send(server, "/batches", given, idempotency_key="another").json()
    assert not {each["run"] for each in other} & {each["run"] for each in first}


def test_a_run_is_steered_and_the_record_says_by_whom_and_how(server: Served, folder: Path) -> None:
    made = document("token", "create", "ann", "--scope", "submit", "--scope", "operate", "--scope", "read")
    ann = f"ann (token {made['id']})"
    until(lambda: server.client.get("/runs").status_code == 401)
    server.client.headers["Authorization"] = f"Bearer {made['token']}"
    (folder / "hold").touch()
    run = begun(server)
    until((folder / "at-judge").exists)
    paused = send(server, f"/runs/{run}/pause", {"reason": "wait"}).json()
    assert (paused["event"], paused["by"]) == ("run.paused.v1", ann)
    assert server.get(f"/runs/{run}")["status"] == "paused"
    assert send(server, f"/runs/{run}/pause", {}).status_code == 422
    assert send(server, f"/runs/{run}/guide", {"advice": "!"}).json()["event"] == "run.guided.v1"
    assert send(server, f"/runs/{run}/limits", {"max_iterations": 1}).json()["event"] == "limits.changed.v1"
    assert send(server, f"/runs/{run}/resume", {}).json()["event"] == "run.resumed.v1"
    (folder / "hold").unlink()
    assert ended(server, run)["outcome"] == "exhausted"
    recorded = events(run)
    assert recorded[0]["actor"] == ann
    said_by = {each["name"]: each["actor"] for each in recorded}
    assert {said_by[name] for name in ("run.paused.v1", "run.guided.v1", "limits.changed.v1", "run.resumed.v1")} == {
        ann
    }
    assert server.get(f"/runs/{run}/drafts/final")["text"] == "Tides more!"


def test_a_run_is_cancelled(server: Served, folder: Path) -> None:
    (folder / "hold").touch()
    run = begun(server)
    until((folder / "at-judge").exists)
    assert send(server, f"/runs/{run}/cancel", {"reason": "enough"}).json()["event"] == "run.cancelled.v1"
    assert ended(server, run)["outcome"] == "cancelled"
    assert send(server, f"/runs/{run}/guide", {"advice": "late"}).status_code == 409


def test_an_edit_is_bound_to_the_text_that_was_looked_at(server: Served, folder: Path) -> None:
    (folder / "hold").touch()
    run = begun(server)
    until((folder / "at-judge").exists)
    draft = server.get(f"/runs/{run}/drafts/1")
    wrong = send(server, f"/runs/{run}/edit", {"text": "Mine", "draft": 1, "sha256": "0" * 64})
    assert (wrong.status_code, wrong.json()["type"]) == (409, "urn:redraft:problem:another-draft")
    right = send(server, f"/runs/{run}/edit", {"text": "Mine", "draft": 1, "sha256": draft["sha256"]})
    assert right.json()["event"] == "draft.edited.v1"
    other = send(server, f"/runs/{run}/edit", {"text": "Of somebody else", "draft": 1, "sha256": draft["sha256"]})
    assert (other.status_code, "draft 2 was made after draft 1" in other.text) == (422, True)
    (folder / "hold").unlink()
    ended(server, run)
    assert [each["text"] for each in server.get(f"/runs/{run}/drafts")][:2] == ["Tides", "Mine"]


def test_only_who_is_asked_approves_and_is_known_by_a_token(folder: Path) -> None:
    gated = LOOP.replace(".finally_(save)", '.then(approve("editor", approvers=["ann"])).finally_(save)')
    (folder / "gated.py").write_text(gated.replace("import Critique", "import approve, Critique"))
    people = {name: document("token", "create", name, "--scope", "admin") for name in ("ann", "bob")}
    bearer = {name: f"Bearer {made['token']}" for name, made in people.items()}
    with served(folder, "gated.py") as server:
        server.client.headers["Authorization"] = bearer["bob"]
        run = begun(server)
        until(lambda: bool(server.get(f"/runs/{run}/tree")["waiting"]))
        draft = server.get(f"/runs/{run}/drafts/final")
        refused = send(server, f"/runs/{run}/approve", {"sha256": draft["sha256"]})
        assert (refused.status_code, "bob is not asked" in refused.json()["detail"]) == (422, True)
        assert "--by" not in refused.json()["detail"]
        given = {"sha256": draft["sha256"], "reason": "fine"}
        approved = send(server, f"/runs/{run}/approve", given, authorization=bearer["ann"]).json()
        assert (approved["event"], approved["by"]) == ("draft.approved.v1", f"ann (token {people['ann']['id']})")
        assert ended(server, run)["outcome"] == "accepted"
    assert document("audit", run, "--verify")["verified"]


def test_a_fork_goes_its_own_way_and_only_an_administrator_may_change_what_a_worker_does(server: Served) -> None:
    run = begun(server)
    ended(server, run)
    forked = send(server, f"/runs/{run}/fork", {"at": 5, "settings": ["max_iterations=1"], "tags": ["forked"]})
    assert forked.status_code == 201
    assert ended(server, forked.json()["run"])["parent"]["run"] == run
    made = document("token", "create", "bob", "--scope", "submit")
    until(lambda: server.client.get("/runs").status_code == 401)
    server.client.headers["Authorization"] = f"Bearer {made['token']}"
    refused = send(server, f"/runs/{run}/fork", {"at": 5, "settings": ["judge.run=rm -rf /"]})
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:redraft:problem:scope")
    assert send(server, f"/runs/{run}/guide", {"advice": "x"}).status_code == 403


def test_policies_are_compared_as_on_the_command_line(server: Served) -> None:
    run = begun(server)
    ended(server, run)
    found = server.get(f"/runs/{run}/whatif", until="score >= 0.5")
    assert found == [document("whatif", run, "--until", "score >= 0.5")]
    table = server.get("/whatif", workflow="loop", until=["score >= 0.5", "score >= 0.9"])
    assert table == document("whatif", "--workflow", "loop", "--until", "score >= 0.5", "--until", "score >= 0.9")


@pytest.mark.check
def test_runs_go_on_after_the_server_was_killed(folder: Path) -> None:
    (folder / "hold").touch()
    with served(folder, "loop.py") as running:
        run = begun(running)
        until((folder / "at-judge").exists)
        running.process.kill()
    (folder / "hold").unlink()
    resumed = spawn("run", "--resume", run, folder=folder)
    assert (resumed.code, resumed.out) == (2, "")
    assert "name the file of its function, with --workflow file.py:name or --actors file.py" in resumed.err
    with served(folder, "loop.py") as running:
        assert ended(running, run)["outcome"] == "accepted"
    assert (folder / "published.txt").read_text() == "Tides more more\n"
    assert document("audit", run, "--verify")["verified"]


def test_a_step_that_is_under_way_ends_before_the_server_does(folder: Path) -> None:
    (folder / "hold").touch()
    with served(folder, "loop.py") as running:
        run = begun(running)
        until((folder / "at-judge").exists)
        running.process.terminate()
        (folder / "hold").unlink()
        assert running.process.wait(30) == 0
    assert "draft.critiqued.v1" in {each["name"] for each in events(run)}


@pytest.mark.check
def test_one_process_at_a_time_is_the_runtime_of_a_store(server: Served, folder: Path) -> None:
    refused = spawn("serve", "--port", "0", folder=folder)
    assert refused.code == 2
    assert "another process serves this store already" in refused.err
    assert "end it first, or stand beside it with --read-only" in refused.err
    with served(folder, "--read-only") as looking:
        run = begun(server)
        until(lambda: looking.client.get(f"/runs/{run}").status_code == 200)
        refused_there = send(looking, "/runs", {"workflow": "prose", "brief": "x"})
        assert (refused_there.status_code, refused_there.json()["type"]) == (405, "urn:redraft:problem:read-only")


@pytest.mark.parametrize(
    ("path", "given", "status"),
    [
        ("/runs", {"workflow": "none", "brief": "x"}, 422),
        ("/runs", {"workflow": "loop", "brief": ""}, 422),
        ("/runs", {"workflow": "loop", "brief": "x", "until": "beauty >= 1"}, 422),
        ("/runs", {"workflow": "loop", "brief": "x", "tags": ["no good"]}, 422),
        ("/runs", {"workflow": "loop", "brief": "x", "max_iterations": 0}, 400),
        ("/runs", {"workflow": "loop", "brief": "x", "file": "/etc/passwd"}, 400),
        ("/runs", {"workflow": "loop.py:loop", "brief": "x"}, 422),
        ("/batches", {"workflow": "loop", "briefs": []}, 400),
        ("/runs/nobody/guide", {"advice": "x"}, 404),
        ("/runs/nobody/fork", {"at": 1}, 404),
    ],
)
def test_what_is_wrong_begins_nothing(resting: Served, path: str, given: Any, status: int) -> None:
    answered = send(resting, path, given)
    assert answered.status_code == status, answered.text
    assert resting.get("/runs")["count"] == 1


def test_a_batch_says_which_brief_is_empty(resting: Served) -> None:
    refused = send(resting, "/batches", {"workflow": "loop", "briefs": ["Tides", {"text": " "}]})
    assert (refused.status_code, "brief 2" in refused.json()["detail"]) == (422, True), refused.text


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"[" * 100_000, "nested deeper than 100"),
        (b'{"workflow":"loop","brief":"x","tags":' + b"[" * 5_000 + b"]" * 5_000 + b"}", "nested deeper than 100"),
        ('{"workflow":"loop","brief":"\u00e4"}'.encode("latin-1"), "the body is not UTF-8"),
        (b'{"workflow":"loop","brief":"\\ud800 x"}', "holds half a surrogate pair"),
        (b'{"workflow":"loop","brief":"\\ud800"}', "holds half a surrogate pair"),
        (b'{"workflow":"loop","brief":"x","state":{"a":NaN}}', "is not JSON"),
        (b'{"workflow":"loop","brief":"x","state":{"a":-Infinity}}', "is not JSON"),
        (b'{"workflow":"loop","brief":"\xc3\xa4\xff"}', "the body is not UTF-8 at byte 31"),
        (b'{"workflow":"loop","brief":"x","max_iterations":1e999}', "holds a number that is out of range"),
        (b"[1", "the body is not JSON"),
        (b"", "the body is empty; send a JSON object"),
        *((WHOLE.encode(each), NOT_UTF_8) for each in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")),
    ],
)
def test_a_body_that_cannot_be_read_is_the_callers_fault(resting: Served, body: bytes, detail: str) -> None:
    for path in ("/runs", "/batches", "/runs/last/pause"):
        refused = resting.client.post(path, content=body, headers={"content-type": "application/json"})
        assert (refused.status_code, refused.json()["type"]) == (400, "urn:redraft:problem:parameters")
        assert detail in refused.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nowhere", 404, "no-such-path"),
        ("DELETE", "/runs", 405, "no-such-method"),
        ("PATCH", "/runs/last/pause", 405, "no-such-method"),
    ],
)
def test_a_path_or_method_that_there_is_not_has_a_type(
    resting: Served, method: str, path: str, status: int, kind: str
) -> None:
    refused = resting.client.request(method, path)
    assert (refused.status_code, refused.json()["type"]) == (status, f"urn:redraft:problem:{kind}")
    assert "allow" in refused.headers or status == 404


@pytest.mark.parametrize(
    ("word", "given"),
    [("pause", {}), ("cancel", {}), ("guide", {"advice": "shorter"}), ("approve", {}), ("edit", {"text": "mine"})],
)
def test_a_run_that_has_ended_takes_no_word(resting: Served, word: str, given: dict[str, str]) -> None:
    refused = send(resting, f"/runs/last/{word}", given)
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:redraft:problem:run-ended")
    assert "has ended and takes no more messages" in refused.json()["detail"]
