"""Lessons of earlier runs, seen from outside: the command line, encrypted stores, HTTP, a deployment."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.app.cli_calls import call, document, said
from tests.app.deployments import Deployment
from tests.app.server.served import served
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq

from redraft.events.bus.port import INBOX, work_queue
from redraft.events.messages.domain_events import LessonStruck, RunStarted

ACTORS = """
import json
from pathlib import Path
from redraft.actors import Critique, Revision, critic, generator, publisher, refiner

@generator
def write(brief, context):
    with Path("given").open("a") as given:
        given.write(json.dumps([each.text for each in context.lessons]) + chr(10))
    return brief.text + "".join(" " + each.text.split()[-1] for each in context.lessons)

@critic
def judge(draft):
    missing = [word for word in ("moon", "date") if word not in draft.text]
    return Critique(1 - len(missing) / 2, suggestions=tuple("Name the " + word for word in missing[:1]))

@refiner
def improve(draft, critique, context):
    with Path("given").open("a") as given:
        given.write(json.dumps([each.mended for each in context.lessons]) + chr(10))
    word = critique.suggestions[0].split()[-1]
    return Revision(draft.text + " " + word, changes=("put in " + word,))

@publisher
def save(draft):
    return "nowhere"
"""
PLAN = """
name: article
lessons: {limit: 5}
steps:
  - generate: {actor: write}
  - repeat:
      until: score >= 1
      max_iterations: 4
      body:
        - critique: {actor: judge}
        - refine: {actor: improve}
  - publish: {actor: save}
"""
KEYS = (("generator", "write"), ("critic", "judge"), ("refiner", "improve"), ("publisher", "save"))
WORDS = ["Name the date", "Name the moon"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    (tmp_path / "actors.py").write_text(ACTORS)
    (tmp_path / "plan.yaml").write_text(PLAN)


def run(brief: str, *options: str, plan: str = "plan.yaml") -> str:
    told = call("run", plan, brief, "--actors", "actors.py", "--json", *options)
    assert told.code == 0, told.err
    return str(json.loads(told.out.splitlines()[-1])["run"])


def given() -> list[list[str]]:
    """What generators and refiners were given since this was looked at last."""
    lines = [json.loads(line) for line in Path("given").read_text().splitlines()]
    Path("given").unlink()
    return lines


def lessons(*options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document("stats", "lessons", *options)
    return found


def iterations(run: str) -> int:
    return int(document("show", run)["ended"]["iterations"])


def test_a_second_run_is_given_the_lessons_of_the_first() -> None:
    first = run("tides")
    assert given() == [[], [], []]
    second = run("waves")
    assert [sorted(each) for each in given()] == [WORDS]
    assert (iterations(first), iterations(second)) == (3, 1)
    by_text = {each["text"]: each for each in lessons()}
    assert {text: each["mended"] for text, each in by_text.items()} == {
        "Name the moon": "put in moon",
        "Name the date": "put in date",
    }
    assert {each["run"] for each in by_text.values()} == {first}
    assert call("audit", "--all", "--verify").code == 0


def test_a_lesson_is_struck_out_and_given_again() -> None:
    run("tides")
    given()
    moon = next(each["id"] for each in lessons() if each["text"] == "Name the moon")
    assert "ann struck out the lesson" in said("lessons", "strike", moon, "--reason", "of one text", "--by", "ann")
    assert "struck out already" in said("lessons", "strike", moon, "--by", "bob")
    assert [each["struck_by"] for each in lessons() if each["id"] == moon] == ["ann"]
    run("waves")
    assert given()[0] == ["Name the date"]
    assert call("audit", "--all", "--verify").code == 0
    said("lessons", "restore", moon, "--by", "ann")
    run("sand")
    assert sorted(given()[0]) == WORDS
    assert call("audit", "--all", "--verify").code == 0
    assert call("rebuild", "issues").code == 0
    assert [each["struck_by"] for each in lessons() if each["id"] == moon] == [None]


def test_an_unknown_lesson_is_one_line() -> None:
    run("tides")
    told = call("lessons", "strike", "nothing", "--by", "ann")
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert "no lesson has the id 'nothing'" in told.err


def test_the_audit_finds_a_lesson_that_had_been_struck_out(monkeypatch: pytest.MonkeyPatch) -> None:
    run("tides")
    moon = next(each["id"] for each in lessons() if each["text"] == "Name the moon")
    said("lessons", "strike", moon, "--by", "ann")
    with monkeypatch.context() as patch:
        patch.setattr("redraft.projections.read_models.lessons._struck", _none)
        second = run("waves")
    told = call("audit", second, "--verify")
    assert told.code != 0
    assert f"the lesson {moon} had been struck out when the run began" in told.out + told.err
    assert call("audit", "--all", "--verify").code != 0


async def _none(views: object) -> Sequence[object]:
    return ()


def test_a_fork_has_the_lessons_of_its_parent() -> None:
    run("tides")
    second = run("waves")
    for each in lessons():
        said("lessons", "strike", each["id"], "--by", "ann")
    given()
    forked = json.loads(said("fork", second, "--at", "1", "--actors", "actors.py", "--json").splitlines()[-1])["run"]
    assert sorted(given()[0]) == WORDS
    assert call("audit", forked, "--verify").code == 0
    assert call("audit", "--all", "--verify").code == 0
    assert call("whatif", second, "--until", "score >= 0.5").code == 0


def test_a_read_model_with_a_wrong_row_stops_no_run() -> None:
    run("tides")
    assert lessons()
    (file,) = [path for path in Path().glob("*.db") if _has_issues(path)]
    with closing(sqlite3.connect(file)) as rows, rows:
        rows.execute("UPDATE issues SET kind = 'odd'")
    given()
    second = run("waves")
    assert given() == [[], [], []]
    assert "with 0 lessons of earlier runs of article (the read model of issues could not be read" in said(
        "events", "--run", second
    )
    assert call("audit", second, "--verify").code == 0


def _has_issues(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as rows:
        return bool(rows.execute("SELECT 1 FROM sqlite_master WHERE name = 'issues'").fetchall())


def test_encrypted_runs_give_no_lessons_and_keep_theirs_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    run("waves")
    assert call("key", "encryption", "key").code == 0
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", "key")
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
    given()
    Path("one.yaml").write_text(PLAN.replace("limit: 5", "limit: 1"))
    sealed = run("sand", plan="one.yaml")
    (told,) = given()[0]
    assert iterations(sealed) == 2, "its critic raised the other issue"
    assert [each["runs"] for each in lessons()] == [1, 1]
    with closing(sqlite3.connect("store.db")) as store:
        rows = store.execute("SELECT state FROM stored_events WHERE originator_id = ?", (sealed,)).fetchall()
    raw = b"".join(bytes(row[0]) for row in rows)
    assert b'"position":' in raw, "that there are lessons is no secret"
    assert b"Name the" not in raw
    assert b"put in" not in raw
    assert told in said("events", "--run", sealed, "--json")
    assert call("erase", sealed, "--by", "ann", "--reason", "asked for").code == 0
    assert told not in said("events", "--run", sealed, "--json")
    assert call("audit", "--all", "--verify").code == 0
    assert [each["runs"] for each in lessons()] == [1, 1]


def test_the_server_lists_and_strikes_lessons(tmp_path: Path) -> None:
    first = run("tides")
    with served(tmp_path) as server:
        found = server.get("/stats/lessons", workflow="article")
        assert found == lessons("--workflow", "article")
        moon = next(each["id"] for each in found if each["text"] == "Name the moon")
        answered = server.client.post(f"/lessons/{moon}/strike", json={"reason": "of one text"})
        assert answered.status_code == 200, answered.text
        assert (answered.json()["run"], answered.json()["event"]) == (first, "lesson.struck.v1")
        again = server.client.post(f"/lessons/{moon}/strike", json={})
        assert (again.status_code, again.json()["event"]) == (200, None)
        assert server.client.post("/lessons/none/strike", json={}).status_code == 422
        assert [each["id"] for each in server.get("/stats/lessons") if each["struck_by"] is not None] == [moon]
        answered = server.client.post(f"/lessons/{moon}/restore", json={})
        assert answered.json()["event"] == "lesson.struck.v1"
        assert [each["struck_by"] for each in server.get("/stats/lessons")] == [None, None]


@pytest.mark.check
def test_a_deployment_gives_lessons(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_rabbitmq()
    monkeypatch.delenv("REDRAFT_STORE")
    there = Deployment(tmp_path, new_prefix(), postgres_url, "quorum")
    try:
        there.start("coordinator", "coordinator")
        there.start("worker", "worker", "actors.py")
        runs = []
        for number in range(3):
            told = there.call("submit", "plan.yaml", "tides")
            assert told.code == 0, told.err
            runs.append(told.out.strip())
            there.ended(runs[-1])
            if number == 1:
                listed = json.loads(there.call("stats", "lessons", "--json").out)
                moon = next(each["id"] for each in listed if each["text"] == "Name the moon")
                told = there.call("lessons", "strike", moon, "--by", "ann")
                assert "ann struck out the lesson" in told.out, told.err
        begun = [there.history(each)[0].data for each in runs]
        texts = [
            sorted(lesson.text for lesson in each.lessons.given)
            for each in begun
            if isinstance(each, RunStarted) and each.lessons
        ]
        assert texts == [[], WORDS, ["Name the date"]]
        assert [type(each.data) for each in there.history(runs[0])].count(LessonStruck) == 1
        assert there.call("audit", "--all", "--verify").code == 0
    finally:
        there.stop()
        asyncio.run(clear(URL, there.prefix, (INBOX, *(work_queue(*key) for key in KEYS))))
