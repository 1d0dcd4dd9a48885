"""`redraft serve --read-only` shows what the command line shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.app.cli_calls import call, document, said, until
from tests.app.server.served import LOOP, Served, served

from redraft.app.record.copying.archive import read_archive


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with three runs; the present folder is the one it is in."""
    home = tmp_path_factory.mktemp("served")
    (home / "loop.py").write_text(LOOP)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{home / 'store.db'}")
        said("run", "loop.py:loop", "Tides", "--tag", "spring", "-q")
        said("run", "loop.py:loop", "Waves", "--max-iterations", "4", "-q")
        said("run", "--text", "A text that is fine.", "-q")
        yield home


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    with served(folder, "--read-only") as running:
        yield running


def test_runs_are_listed_counted_and_paged_as_on_the_command_line(server: Served) -> None:
    page = server.get("/runs")
    assert page["runs"] == document("list")
    assert (page["count"], page["next"]) == (3, None)
    first = server.get("/runs", limit=2)
    assert first["next"] == first["runs"][-1]["run"]
    rest = server.get("/runs", limit=2, after=first["next"])
    assert [*first["runs"], *rest["runs"]] == page["runs"]
    assert server.get("/runs", tag="spring")["count"] == 1
    assert server.get("/runs", workflow="prose", status="ended")["count"] == 1
    assert server.get("/runs", text="wAVES")["runs"] == document("list", "--text", "waves")


@pytest.mark.parametrize("figures", ["budgets", "distributions", "drift", "agreement", "people", "recurring"])
def test_figures_over_runs_are_those_of_the_command_line(server: Served, figures: str) -> None:
    assert server.get(f"/stats/{figures}", workflow="loop") == document("stats", figures, "--workflow", "loop")
    assert "leave out run" in server.get(f"/stats/{figures}", 422, run="last")["detail"]
    assert "leave it out" in call("stats", figures, "last").err


@pytest.mark.parametrize("by", ["day", "run", "actor", "model"])
def test_costs_are_those_of_the_command_line(server: Served, by: str) -> None:
    assert server.get("/stats/costs", by=by) == document("stats", "costs", "--by", by)
    assert said("stats", "costs", "--by", by).startswith(by)


def test_runs_are_found_by_words_in_briefs_and_drafts(server: Served) -> None:
    page = server.get("/runs", search="TIDES mor*")
    assert page["runs"] == document("list", "--search", "tides mor*") == document("list", "--tag", "spring")
    assert page["count"] == 1
    said_of = {"brief": False, "drafts": [2, 3], "before": "", "match": "Tides", "after": "more more"}
    assert page["found"] == [{"run": page["runs"][0]["run"], **said_of}]
    assert server.get("/runs", search="tides")["found"][0]["brief"] is True
    assert server.get("/runs", search="more", limit=1)["count"] == 2
    assert server.get("/runs", search="more", text="waves")["count"] == 1
    assert "there is no word" in server.get("/runs", 422, search="*")["detail"]
    assert "draft 3: Tides more more" in said("list", "--search", "tides")
    assert said("list", "--count", "--search", '"more tides"').strip() == "0"


@pytest.mark.parametrize("sort", ["started", "updated", "iterations", "score", "tokens", "cost"])
@pytest.mark.parametrize("ascending", [False, True])
def test_pages_of_a_sorted_list_hold_each_run_once(server: Served, sort: str, ascending: bool) -> None:
    order = {"sort": sort, "ascending": ascending}
    whole = server.get("/runs", **order)["runs"]
    assert whole == document("list", "--sort", sort, *(["--ascending"] if ascending else []))
    keys = [(each[sort] if each[sort] is not None else -1, each["position"]) for each in whole]
    assert keys == sorted(keys, reverse=not ascending)
    paged: list[Any] = []
    while page := server.get("/runs", limit=1, after=paged[-1]["run"] if paged else "", **order)["runs"]:
        paged += page
    assert paged == whole


def test_a_run_is_shown_as_on_the_command_line(server: Served) -> None:
    run = server.get("/runs", tag="spring")["runs"][0]["run"]
    assert server.get(f"/runs/{run}/tree") == document("show", run)
    assert server.get(f"/runs/{run}/tree", at="5") == document("show", run, "--at", "5")
    events = [json.loads(line) for line in said("events", "--run", run, "--json").splitlines()]
    assert server.get(f"/runs/{run}/history") == events
    assert server.get(f"/runs/{run[-8:]}")["run"] == server.get("/runs/" + run)["run"] == run
    assert server.get(f"/runs/{run}/drafts/final")["text"] == said("show", run, "--text") == "Tides more more"
    assert [each["version"] for each in server.get(f"/runs/{run}/drafts")] == [1, 2, 3]
    assert server.get(f"/runs/{run}/drafts/2")["text"] == "Tides more"
    assert server.get(f"/runs/{run}/diff", a=1, b=3) == document("diff", run, "1", "3")
    step = "Loop[2]/improve"
    assert server.get(f"/runs/{run}/request", step=step) == document("show", run, "--step", step)


def test_a_run_is_audited_as_on_the_command_line(server: Served, folder: Path) -> None:
    audit = server.get("/runs/last/audit")
    known = document("audit", "last", "--verify")
    assert audit["verified"] is known["verified"] is True
    assert known.pop("exported") is None
    assert {name: audit.get(name) for name in known} == known
    assert (audit["story"], audit["last_hash"], audit["fault"]) == (known["story"], known["last_hash"], "")
    said("audit", "last", "--export", "last.jsonl")
    assert server.client.get("/runs/last/record.jsonl").text == (folder / "last.jsonl").read_text()
    page = server.client.get("/runs/last/audit.html")
    assert page.headers["content-type"].startswith("text/html")
    assert "Verified" in page.text


@pytest.mark.check
def test_figures_are_those_of_the_command_line(server: Served) -> None:
    for figures in ("actors", "choices", "critics", "criteria", "measures", "scores", "publications", "issues", "tree"):
        assert server.get(f"/stats/{figures}") == document("stats", figures)
        assert server.get(f"/stats/{figures}", run="last") == document("stats", figures, "last")
    assert server.get("/projections") == document("projections", "list")
    assert server.get("/projections/runs") == document("projections", "show", "runs")


def test_actors_say_who_serves_them(server: Served) -> None:
    actors = server.get("/actors")
    assert {each["actor"] for each in actors} >= {"write", "judge", "improve", "save"}
    assert {each["consumers"] for each in actors} == {None}


def test_the_archive_is_that_of_an_export(server: Served, folder: Path) -> None:
    archive = folder / "got.jsonl.zst"
    archive.write_bytes(server.client.get("/archive", params={"run": "last"}).content)
    assert {each.run for each in read_archive(archive)} == {server.get("/runs/last")["run"]}


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/runs/nobody", 404, "no-such-run"),
        ("/runs/last/drafts/99", 404, "no-such-draft"),
        ("/runs/last/tree?at=999", 422, "input"),
        ("/runs/last/tree?at=soon", 422, "input"),
        ("/runs/last/request?step=none", 422, "input"),
        ("/runs?limit=0", 400, "parameters"),
        ("/runs?sort=beauty", 400, "parameters"),
        ("/runs?since=soon", 422, "input"),
        ("/projections/none", 422, "input"),
        ("/projections/loop.py:x", 404, "no-such-projection"),
        ("/stats/none", 400, "parameters"),
    ],
)
def test_what_is_wrong_is_a_problem(server: Served, path: str, status: int, kind: str) -> None:
    answered = server.client.get(path)
    assert (answered.status_code, answered.headers["content-type"]) == (status, "application/problem+json")
    told = answered.json()
    assert (told["status"], told["type"]) == (status, f"urn:redraft:problem:{kind}")
    assert told["title"]
    assert told["detail"]


def test_a_parameter_that_is_one_of_a_few_is_told_which(server: Served) -> None:
    values = "one of cost, iterations, score, started, tokens, updated"
    for path in ("/runs?sort=zz", "/runs?status=zz"):
        detail = server.client.get(path).json()["detail"]
        assert "Invalid enum value 'zz'; give one of " in detail
    assert server.client.get("/runs?sort=zz").json()["detail"].endswith(values)


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/runs?stauts=running", "'stauts' is no parameter of this path; there are after, ascending, items, limit, "),
        ("/runs?status=ended&status=running", "status is given 2 times; give it once"),
        ("/runs/last?at=7", "'at' is no parameter of this path; there is none"),
        ("/events?typ=run.ended", "'typ' is no parameter of this path; there are after, limit, outcome, run, since, "),
        ("/events/stream?limit=5", "'limit' is no parameter of this path; there are after, outcome, run, since, tag, "),
        ("/runs/last/whatif?until=exit()&loops=a", "'loops' is no parameter of this path; there are keep, loop, "),
        ("/openapi.json?v=1", "'v' is no parameter of this path; there is none"),
    ],
)
def test_a_parameter_that_there_is_not_and_one_that_is_doubled_are_refused(
    server: Served, path: str, detail: str
) -> None:
    refused = server.client.get(path, timeout=5)
    assert (refused.status_code, refused.json()["type"]) == (400, "urn:redraft:problem:parameters")
    assert refused.json()["detail"].startswith(detail)


def test_a_parameter_that_may_be_repeated_is_taken_as_often_as_it_is_given(server: Served) -> None:
    both = server.get("/events", type=["run.started", "run.ended"])["events"]
    assert {each["name"] for each in both} == {"run.started.v1", "run.ended.v1"}


def test_the_server_describes_itself(server: Served) -> None:
    described = server.get("/openapi.json")
    assert described["openapi"].startswith("3.1")
    answer = described["paths"]["/api/v1/runs/{run}/tree"]["get"]["responses"]["200"]
    assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Tree"}
    references = set(_references(described))
    assert {each.removeprefix("#/components/schemas/") for each in references} <= described["components"][
        "schemas"
    ].keys()


def test_the_description_has_tokens_and_each_status_that_a_success_may_have(server: Served) -> None:
    described = server.get("/openapi.json")
    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert described["security"] == [{"token": []}, {}]
    assert described["paths"]["/health"]["get"]["security"] == []
    later = ["/runs", "/batches", "/leases/{lease_id}/answer", "/runs/{run}/fork"]
    later += [f"/runs/{{run}}/{word}" for word in ("guide", "limits", "pause", "resume", "cancel", "approve", "edit")]
    for path in later:
        responses = described["paths"][f"/api/v1{path}"]["post"]["responses"]
        done = responses["201" if path in ("/runs", "/batches", "/runs/{run}/fork") else "200"]
        assert responses["202"]["content"] == done["content"], path
    assert "content" not in described["paths"]["/api/v1/requests/lease"]["post"]["responses"]["204"]


def _references(value: Any) -> Iterator[str]:
    match value:
        case {"$ref": str() as found}:
            yield found
        case dict():
            for each in value.values():
                yield from _references(each)
        case list():
            for each in value:
                yield from _references(each)


def test_a_server_beside_another_process_sees_what_that_records(server: Served) -> None:
    before = server.get("/runs")["count"]
    said("run", "loop.py:loop", "Sand", "-q")
    until(lambda: server.get("/runs/last")["brief"] == "Sand")  # that process has ended; the server follows the log
    assert server.get("/runs")["count"] == before + 1


def test_it_ends_when_it_is_told_to(folder: Path) -> None:
    with served(folder, "--read-only") as running:
        assert running.get("/runs", limit=1)["runs"]
        assert running.stop() == 0
