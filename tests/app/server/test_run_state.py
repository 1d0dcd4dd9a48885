"""The state of a run over HTTP: what runs, batches and forks begin with, and how it is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.app.cli_calls import said, until
from tests.app.server.served import Served, served
from tests.app.stateful import STATEFUL


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("state")
    (home / "article.py").write_text(STATEFUL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{home / 'store.db'}")
        with served(home, "article.py:judged", "article.py:tested") as running:
            yield running


def begun(server: Served, path: str = "/runs", **given: Any) -> Any:
    answered = server.client.post(path, json=given)
    assert answered.status_code == 201, answered.text
    return answered.json()


def ended(server: Served, run: str) -> str:
    until(lambda: server.get(f"/runs/{run}")["status"] == "ended")
    return run


def test_a_run_begins_with_the_values_of_its_body_and_of_its_brief(server: Served) -> None:
    brief = {"text": "Tides", "state": {"audience": "experts", "limit": 5}}
    run = ended(server, begun(server, workflow="judged", brief=brief, state={"audience": "children"})["run"])
    found = server.get(f"/runs/{run}/state", at="1")
    assert {name: found["state"][name] for name in ("audience", "limit")} == {"audience": "children", "limit": 5}
    assert [each["by"] for each in found["changes"]] == ["the plan", "the brief"]
    now = server.get(f"/runs/{run}/state")
    assert now["state"]["tests_pass"] is True
    assert now["changes"][-1]["path"] == "Loop[2]/judge"
    assert server.get(f"/runs/{run}/drafts/final")["text"] == "Tides for children The moon."


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ({"audiance": "x"}, "did you mean audience?"),
        ({"limit": "many"}, "limit is 'many'; the plan's state has int there"),
        ({"notes": "x" * 262_145}, "more than 262,144"),
        ({"1x": 1}, "'1x' cannot name a value"),
    ],
)
def test_values_that_the_plan_does_not_have_begin_nothing(server: Served, state: dict[str, Any], fault: str) -> None:
    before = server.get("/runs")["count"]
    for path, given in (("/runs", {"brief": "Tides"}), ("/batches", {"briefs": ["Tides", "Waves"]})):
        refused = server.client.post(path, json={"workflow": "judged", "state": state, **given})
        assert refused.status_code == 422
        assert fault in refused.json()["detail"]
    assert server.get("/runs")["count"] == before


def test_each_brief_of_a_batch_may_have_values_of_its_own(server: Served) -> None:
    briefs = ["Ebb", {"text": "Flow", "state": {"audience": "experts"}}]
    runs = [each["run"] for each in begun(server, "/batches", workflow="judged", briefs=briefs, state={"limit": 9})]
    found = [server.get(f"/runs/{run}/state", at="1")["state"] for run in runs]
    assert [(each["audience"], each["limit"]) for each in found] == [("adults", 9), ("experts", 9)]
    others = begun(server, "/batches", workflow="judged", briefs=briefs, state={"limit": 8})
    assert not {each["run"] for each in others} & set(runs)


def test_a_fork_changes_values_in_the_name_of_who_asks(server: Served) -> None:
    run = ended(server, begun(server, workflow="judged", brief="Sand")["run"])
    forked = begun(server, f"/runs/{run}/fork", at=5, state={"audience": "children"}, settings=["state.limit=4"])["run"]
    change = next(each for each in server.get(f"/runs/{forked}/state")["changes"] if each["version"] == 6)
    assert (change["by"], change["state"]) == ("somebody", {"limit": 4, "audience": "children"})
    assert "path" not in change
    refused = server.client.post(f"/runs/{run}/fork", json={"at": 5, "state": {"limit": []}})
    assert refused.status_code == 422
    assert 'audience: "adults" → "children"' in said("diff", run, forked, "--state")


def test_the_description_tells_of_the_state(server: Served) -> None:
    described = server.client.get("/openapi.json").json()
    for name in ("Submission", "BatchSubmission", "Forking", "BriefText"):
        schema = described["components"]["schemas"][name]
        assert schema["properties"]["state"]["type"] == "object", name
    assert "/api/v1/runs/{run}/state" in described["paths"]


def test_statistics_count_steps_without_a_role(server: Served) -> None:
    run = ended(server, begun(server, workflow="tested", brief="Tides")["run"])
    actors = {(each["role"], each["actor"]): each for each in server.get("/stats/actors", run=run)}
    assert actors["step", "run_tests"]["done"] == 2
    line = server.get(f"/runs/{run}")
    assert (line["status"], line["score"]) == ("ended", None)
