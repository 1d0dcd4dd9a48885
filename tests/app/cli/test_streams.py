"""Where results go: to no standard output, a full one, a terminal; and which texts are no result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.app.cli_calls import call, document, environment, one_line, shown_on
from tests.forked import fork
from tests.processes import Said
from tests.trials import first_alone

WORKFLOWS = """
import sys

from redraft.actors import Critique, PermanentError, Workflow, critic, generator, step

@generator
def write(brief): return brief.text

@critic
def likes(draft): return Critique(1.0)

@critic
def breaks(draft): raise PermanentError("no answer")

@critic
def refuses(draft): return Critique(0.9, approved=False)

@critic
def talks(draft):
    print("x" * 10_000, flush=True)
    print("y", end="", file=sys.stderr, flush=True)
    sys.stdout.buffer.write(b"z")
    sys.stderr.writelines(["z"])
    return 1.0

@critic(isolation="process")
def apart(draft): return talks(draft)

talking = Workflow("talking").start_with(write).then(talks, apart)
good = Workflow("good").start_with(write).then(likes)
broken = Workflow("broken").start_with(write).then(likes).then(breaks)
refused = Workflow("refused").start_with(write).then(step(refuses, gate=True))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'store.db'}")
    (tmp_path / "flows.py").write_text(WORKFLOWS)
    return tmp_path


def shell(command: str, folder: Path) -> Said:
    """What a shell makes of a line in which `redraft` is the command."""
    line = command.replace("redraft", f"{sys.executable} -W error -m redraft", 1)
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env=environment(folder, {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("name", ["broken", "refused"])
def test_a_run_that_failed_or_was_rejected_writes_no_draft(name: str, folder: Path):
    run = call("run", f"flows.py:{name}", "Tides exist")
    assert (run.code, run.out) == (1 if name == "broken" else 3, "")
    assert "its last draft: redraft show " in run.err.splitlines()[-1]
    again = call("run", "--resume", "last")
    assert (again.code, again.out) == (run.code, "")
    assert call("show", "last", "--text").out == "Tides exist"


@pytest.mark.parametrize("name", ["broken", "refused"])
def test_nor_does_it_write_a_file(name: str, folder: Path):
    critic = {"broken": "breaks", "refused": "refuses, gate: true"}[name]
    steps = ("generate: {actor: write}", f"critique: {{actor: {critic}}}", "publish: {actor: file}")
    (folder / "plan.yaml").write_text("name: p\nsteps:\n" + "".join(f"- {each}\n" for each in steps))
    run = call("run", "plan.yaml", "--actors", "flows.py", "Tides exist", "--out", "out.md")
    assert run.code in (1, 3), run.err
    assert (run.out, (folder / "out.md").exists()) == ("", False)


def test_an_accepted_one_without_a_publisher_is_printed(folder: Path):
    assert call("run", "flows.py:good", "Tides exist").out == "Tides exist"
    assert call("run", "--resume", "last").out == "Tides exist"


VERBS = ("list", "--help", "--version", "show last", "events", "stats actors", "list --json")


@pytest.mark.parametrize(
    "verb", ["list", "--help", *(pytest.param(each, marks=pytest.mark.check) for each in VERBS[2:])]
)
def test_a_standard_output_that_is_closed_is_told_in_one_line(verb: str, folder: Path):
    assert call("run", "-q", "flows.py:good", "Tides exist").code == 0
    done = shell(f"redraft {verb} >&-", folder)
    assert done.code == 1
    assert "the output cannot be written" in one_line(done)


@pytest.mark.parametrize("verb", VERBS)
def test_a_standard_output_that_takes_nothing_is_told_in_one_line(verb: str, folder: Path):
    assert call("run", "-q", "flows.py:good", "Tides exist").code == 0
    with (
        Path("/dev/full").open("w") as full,
        fork(
            "redraft",
            *verb.split(),
            folder=folder,
            environment=environment(folder, {}),
            stdout=full.fileno(),
            stderr=subprocess.PIPE,
        ) as process,
    ):
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the output cannot be written" in one_line(Said(1, "", err))


@pytest.mark.check
@pytest.mark.parametrize("target", first_alone([">&-", ">/dev/full"]))
def test_a_run_whose_text_nobody_takes_fails_and_says_so(target: str, folder: Path):
    done = shell(f"redraft run --quiet --text 'This is fine.' {target}", folder)
    assert done.code == 1
    assert "stdout: the text cannot be written" in one_line(done)
    assert document("list")[0]["outcome"] == "failed"
    written = shell(f"redraft run --quiet --text 'This is fine.' --out fine.md {target}", folder)
    assert (written.code, written.err) == (0, "")
    assert (folder / "fine.md").read_text() == "This is fine."


@pytest.mark.check
@pytest.mark.parametrize("target", first_alone(["2>&- <&-", "2>&-", "2>/dev/full", "<&-"]))
def test_without_standard_error_or_input_the_result_is_the_same(target: str, folder: Path):
    done = shell(f"redraft run --text 'This is fine.' {target}", folder)
    assert (done.code, done.out) == (0, "This is fine.")
    assert json.loads(shell(f"redraft list --json {target}", folder).out)[0]["outcome"] == "accepted"


@pytest.mark.check
@pytest.mark.parametrize("target", first_alone(["2>&-", "2>/dev/full"]))
def test_what_functions_print_where_nothing_can_be_written_does_not_fail_them(target: str, folder: Path):
    done = shell(f"redraft run flows.py:talking Fine {target}", folder)
    assert (done.code, done.out) == (0, "Fine")
    (folder / "briefs.jsonl").write_text('{"text": "Fine"}')
    done = shell(f"redraft run --batch briefs.jsonl flows.py:talking --json {target}", folder)
    assert (done.code, json.loads(done.out)["outcome"]) == (0, "accepted")


def test_what_a_file_prints_when_it_is_loaded_is_no_part_of_a_result(folder: Path):
    (folder / "flows.py").write_text(f"print('loading')\n{WORKFLOWS}")
    plan = call("plan", "flows.py:good")
    assert (plan.code, plan.out.splitlines()[0], plan.err) == (0, "name: good", "loading\n")


def test_an_error_of_several_lines_is_told_in_one_and_listed_by_audit(folder: Path):
    (folder / "many.py").write_text(WORKFLOWS.replace('"no answer"', '"2 errors:\\n  tone: missing\\n  words: none"'))
    failed = call("run", "--quiet", "many.py:broken", "Tides exist")
    assert "2 errors: | tone: missing | words: none; its last draft" in one_line(failed)
    assert "2 errors: | tone: missing | words: none" in call("show", "last").out
    story = [line.strip() for line in call("audit", "last").out.splitlines()]
    assert story[(at := story.index("2 errors:")) : at + 3] == ["2 errors:", "tone: missing", "words: none"]


@pytest.mark.check
def test_a_closed_standard_input_is_an_empty_brief(folder: Path):
    done = shell("redraft run - <&-", folder)
    assert (done.code, done.out) == (2, "")
    assert "the text is empty" in one_line(done)


@pytest.mark.parametrize("words", ["run --quiet --text Fine", "run --quiet flows.py:good Fine", "show last --text"])
def test_a_result_ends_with_a_line_end_on_a_terminal(words: str, folder: Path):
    assert call("run", "--quiet", "--text", "Fine").out == "Fine", "byte for byte elsewhere"
    ours, theirs = os.openpty()
    with fork("redraft", *words.split(), folder=folder, environment=environment(folder, {}), stdout=theirs) as process:
        os.close(theirs)
        assert shown_on(ours) == "Fine\r\n"
        assert process.wait(60) == 0
