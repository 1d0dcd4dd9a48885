"""`redraft approve`, `reject`, `edit`: on a store alone, beside a process, and over RabbitMQ."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.app.cli_calls import call, one_line, said, start, until
from tests.app.deployments import Deployment, deployment

LOOP = """
from redraft.actors import (
    Critique, Workflow, approve, approved, critic, generator, publisher, refiner, repeat, score, step
)

@generator
def write(brief):
    return brief.text

@critic
def judge(draft):
    return Critique(min(1, draft.text.count("!") / 2))

@refiner
def improve(draft, history):
    return draft.text + "!" + "".join(history.advice)

@publisher
def save(draft):
    with open("published.txt", "a") as file:
        file.write(draft.text + "\\n")
    return "published.txt"

REFINE = dict(until=score >= 1, max_iterations=5, name="Refinement", body=[judge, improve])
loop = (
    Workflow("gated").start_with(write).repeat_until(**REFINE)
    .then(approve("editor", approvers=["ann", "ben"], quorum=2)).finally_(save)
)
review = (
    Workflow("review").start_with(write)
    .repeat_until(approved, max_iterations=3, name="Review", body=[repeat(**REFINE), approve("editor")])
    .finally_(save)
)
gate = Workflow("gate").start_with(write).then(step(judge, gate=True)).then(approve("editor")).finally_(save)
"""


@pytest.fixture(autouse=True)
def folder(home: Path) -> Path:
    (home / "loop.py").write_text(LOOP)
    return home


def waits(draft: int, run: str = "last") -> bool:
    shown = call("show", run, "--json")
    return shown.code == 0 and f"draft {draft} waits" in json.loads(shown.out)["waiting"]


@contextmanager
def running(folder: Path, workflow: str, draft: int = 3, **settings: str) -> Iterator[subprocess.Popen[str]]:
    with start("run", f"loop.py:{workflow}", "Tides", "--json", folder=folder, **settings) as process:
        try:
            until(lambda: (folder / "store.db").exists() and waits(draft))
            yield process
        finally:
            process.kill()


def result(process: subprocess.Popen[str]) -> tuple[int, dict[str, object]]:
    out, err = process.communicate(timeout=30)
    assert out, err
    return process.returncode, json.loads(out)


def test_a_run_waits_for_two_people_and_publishes_what_they_approved(folder: Path) -> None:
    with running(folder, "loop") as process:
        assert "draft 3 waits for ann, ben to approve it by" in said("show", "last")
        assert one_line(call("approve", "last", "--by", "eve")).endswith(
            "eve is not asked; it is for ann, ben to decide (--by NAME)"
        )
        assert "draft 2 is not waited for; draft 3 is" in one_line(
            call("approve", "last", "--draft", "2", "--by", "ann")
        )
        assert "--draft 9: run" in one_line(call("approve", "last", "--draft", "9", "--by", "ann"))
        assert said("approve", "last", "--draft", "3", "--by", "ann").endswith("ann approved draft 3\n")
        assert "has approved it already" in one_line(call("approve", "last", "--by", "ann"))
        said("approve", "last", "--by", "ben", "--reason", "fine")
        assert result(process)[0] == 0
    assert (folder / "published.txt").read_text() == "Tides!!\n"
    assert call("audit", "last", "--verify").code == 0
    assert call("approve", "last", "--by", "ann").code == 2


def test_two_words_of_an_encrypted_run_are_no_fault_without_its_key_nor_once_it_is_erased(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said("key", "encryption", "key")
    encrypted = {"REDRAFT_ENCRYPT_NEW_RUNS": "1", "REDRAFT_ENCRYPT_KEY_FILE": "key"}
    for name, value in encrypted.items():
        monkeypatch.setenv(name, value)
    with running(folder, "loop", **encrypted) as process:
        said("approve", "last", "--by", "ann")
        said("approve", "last", "--by", "ben")
        assert result(process)[0] == 0
    with monkeypatch.context() as keyless:
        for name in encrypted:
            keyless.delenv(name)
        assert "no fault" in said("audit", "--all", "--verify")
    assert "no fault" in said("audit", "--all", "--verify")
    said("erase", "last", "--by", "ann", "--reason", "asked for")
    assert "no fault" in said("audit", "--all", "--verify")
    assert "events verified" in said("audit", "last", "--verify")


def test_a_rejection_goes_back_into_the_loop_and_an_edit_is_critiqued(folder: Path) -> None:
    with running(folder, "review") as process:
        said("reject", "last", "--draft", "3", "--feedback", "?", "--by", "ann")
        until(lambda: waits(4))
        (folder / "mine.txt").write_text("Mine!!")
        said("edit", "last", "mine.txt", "--by", "ben", "--reason", "shorter")
        until(lambda: waits(5))
        assert "Review[2]/Refinement[edit1]/judge" in said("events", "--run", "last", "--json")
        assert "look at a person's draft" in said("show", "last")
        assert "draft 5 waits for anybody to approve it by" in said("audit", "last")
        said("approve", "last", "--draft", "5", "--by", "ann")
        code, told = result(process)
    assert (code, told["outcome"], told["draft"]["text"]) == (0, "accepted", "Mine!!")  # type: ignore[index]
    known = [json.loads(line)["data"] for line in said("events", "--run", "last", "--json").splitlines()]
    texts = [each["draft"]["text"] for each in known if "text" in (each.get("draft") or {})]
    assert "Tides!!!?" in texts, "the refiner heeded the feedback"
    assert (folder / "published.txt").read_text() == "Mine!!\n"
    page = folder / "page.html"
    said("audit", "last", "--export", str(page))
    assert "by ben, by hand" in page.read_text()


def test_with_a_broker_set_too_the_approval_reaches_the_process_that_runs_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRAFT_BUS", "amqp://nobody@127.0.0.1:1/")  # no broker answers there, and none is needed
    with running(folder, "loop") as process:
        said("approve", "last", "--by", "ann")
        said("approve", "last", "--by", "ben")
        assert json.loads(process.communicate(timeout=60)[0])["outcome"] == "accepted"


def test_who_would_approve_what_a_gate_did_not_pass_is_told_that_it_would_mean_nothing(folder: Path) -> None:
    with running(folder, "gate", draft=1) as process:
        told = one_line(call("approve", "last", "--by", "ann"))
        assert "gate judge did not pass draft 1, and an approval cannot overrule a gate" in told
        said("reject", "last", "--by", "ann")
        assert result(process)[1]["outcome"] == "rejected"


def test_a_decision_that_is_made_while_nobody_runs_is_heeded_when_the_run_goes_on(folder: Path) -> None:
    with running(folder, "loop") as process:
        process.kill()
        process.communicate()
    said("reject", "last", "--by", "ann", "--feedback", "no")
    shown = json.loads(said("show", "last", "--json"))["ended"]
    assert (shown["outcome"], shown["reason"]) == ("rejected", "ann rejected draft 3: no")
    assert call("run", "--resume", "last").code == 3
    with running(folder, "review") as process:
        process.kill()
        process.communicate()
    said("approve", "last", "--by", "ann")
    assert call("run", "--resume", "last", "-w", "loop.py:review").code == 0
    assert (folder / "published.txt").read_text() == "Tides!!\n"


def test_a_plan_in_yaml_asks_people_too_and_prints_in_every_form(folder: Path) -> None:
    (folder / "plan.yaml").write_text(
        "name: gated\nsteps:\n- generate: {actor: write}\n- critique: {actor: judge}\n"
        "- approve: {name: editor, approvers: [ann], deadline: 2d, on_deadline: approve}\n- publish: {actor: save}\n"
    )
    printed = said("plan", "plan.yaml")
    assert "name: editor\n    approvers: [ann]\n    deadline: 48h\n    on_deadline: approve" in printed
    assert "people: editor, ann" in said("plan", "plan.yaml", "--as", "mermaid")
    (folder / "plan.yaml").write_text((folder / "plan.yaml").read_text().replace("2d", "soon"))
    assert one_line(call("plan", "plan.yaml")).startswith("plan.yaml:5: steps[2].approve.deadline: 'soon' is here")


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        (tmp_path / "loop.py").write_text(LOOP)
        yield made


def test_people_decide_in_a_deployment(there: Deployment) -> None:
    there.start("coordinator", "coordinator")
    there.start("worker", "worker", "loop.py")
    run = there.call("submit", "loop.py:review", "Tides").out.strip()
    there.until("it waits", lambda: "draft 3 waits" in there.call("show", run, "--json").out)  # it may not be known yet
    assert there.json("reject", run, "--draft", "3", "--feedback", "?", "--by", "ann")["event"] == "draft.rejected.v1"
    there.until("it waits again", lambda: "draft 4 waits" in there.json("show", run)["waiting"])
    assert there.json("approve", run, "--draft", "4", "--by", "ann")["by"] == "ann"
    there.ended(run)
    assert (there.folder / "published.txt").read_text() == "Tides!!!?\n"


@pytest.mark.check
def test_a_deadline_is_kept_by_the_coordinator_across_its_death(there: Deployment) -> None:
    (there.folder / "plan.yaml").write_text(
        "name: gated\nsteps:\n- generate: {actor: write}\n- critique: {actor: judge}\n"
        "- approve: {name: editor, deadline: 5s, on_deadline: fail}\n- publish: {actor: save}\n"
    )
    coordinator = there.start("coordinator", "coordinator")
    there.start("worker", "worker", "loop.py")
    run = there.call("submit", "plan.yaml", "Tides").out.strip()
    there.until("it waits", lambda: "waits" in str(there.call("show", run, "--json").out))
    coordinator.kill()
    there.start("coordinator", "coordinator")
    there.ended(run)
    ended = there.json("show", run)["ended"]
    assert (ended["outcome"], ended["reason"]) == ("failed", "editor: nobody decided on draft 1 in time")
