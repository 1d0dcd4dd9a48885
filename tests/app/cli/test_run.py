"""`redraft run`: real runs through the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

import pytest
from tests.app.cli_calls import call, environment, one_line, shown_on, spawn
from tests.app.quick_python import quick_python

from redraft.app.builtin.prose.actors import UNSPELLED
from redraft.app.builtin.prose.spelling import lexicon
from redraft.app.workflows import briefs

WORKFLOWS = """
from redraft.actors.workflow.roles import critic, generator, publisher, refiner
from redraft.actors.workflow.workflow import Workflow
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Critique, Receipt, Revision

@generator
def write(brief):
    return brief.text

@critic
def judge(draft):
    print("judging")
    return Critique(min(1, draft.text.count("!") / 2), suggestions=("shout",))

@refiner
async def improve(draft):
    return Revision(draft.text + "!", changes=("shouted",))

loud = Workflow("loud").start_with(write).repeat_until(score >= 1, max_iterations=5, body=[judge, improve])
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    (tmp_path / "loud.py").write_text(WORKFLOWS)
    return tmp_path


def test_prose_is_refined_to_standard_output_with_progress_beside_it(folder: Path):
    (folder / "essay.md").write_text("# Tides\n\nThe the moon pulls teh sea. `recieve` stays.\n")
    said = spawn("run", "--workflow", "prose", "essay.md", folder=folder)
    assert said.code == 0, said.err
    assert said.out == "# Tides\n\nThe moon pulls the sea. `recieve` stays.\n"
    lines = said.err.splitlines()
    assert lines[0].startswith("generate: generator source wrote draft 1")
    assert lines[1] == "Refinement: iteration 1 of 5"
    assert any(line.startswith("Refinement[1]/critique: critic prose scored draft 1 at 0.") for line in lines)
    assert lines[-1].startswith("redraft: accepted, score ")
    assert "2 iterations, run 01" in lines[-1]


def test_the_end_of_a_run_says_that_spelling_was_not_looked_at(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> Distribution:
        raise PackageNotFoundError(name)

    (folder / "essay.md").write_text("# Tides\n\nThe moon pulls teh sea, and the sea pulls it.\n")
    monkeypatch.setattr(lexicon, "distribution", missing)
    lexicon.read_lexicon.cache_clear()
    try:
        said = call("run", "essay.md")
    finally:
        monkeypatch.undo()
        lexicon.read_lexicon.cache_clear()
    assert said.err.splitlines()[-2].startswith("redraft: accepted, ")
    assert said.err.splitlines()[-1] == f"redraft: prose: {UNSPELLED}"
    assert "not looked at" not in call("run", "essay.md").err


def test_code_that_does_not_compile_is_not_accepted(folder: Path):
    (folder / "broken.py").write_text("def f():\n    x = 1\nreturn x\n")
    said = call("run", "broken.py")
    assert said.code == 3
    assert "public-names" in said.err
    assert "redraft: accepted" not in said.err


def test_code_is_refined_into_a_file_judged_by_its_tests(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", quick_python(folder))
    (folder / "sums.py").write_text("import os as _os\ndef double(x):\n    return x*2\n")
    (folder / "test_sums.py").write_text("from sums import double\n\ndef test_double():\n    assert double(2) == 4\n")
    said = call("run", "-w", "code", "sums.py", "--tests", "test_sums.py", "--out", "better.py")
    assert said.code == 0, said.err
    assert said.out == ""
    assert (folder / "better.py").read_text() == "def double(x):\n    return x*2\n"
    assert (folder / "sums.py").read_text().startswith("import os")


def test_the_suffix_chooses_the_workflow_and_words_may_name_it(folder: Path):
    (folder / "a.py").write_text("import os as _os\nx = 1\n")
    assert json.loads(call("run", "a.py", "--json").out)["draft"]["text"] == "x = 1\n"
    assert call("list", "--json").out.count('"workflow":"code"') == 1
    assert call("run", "prose", "The tide comes in twice a day.", "-q").out == "The tide comes in twice a day."


@pytest.mark.parametrize("name", ["essay.md", "ESSAY.MARKDOWN", "essay.rst", "essay.txt"])
def test_a_text_gets_prose(folder: Path, name: str):
    (folder / name).write_text("The tide comes in twice a day.")
    assert call("run", name, "-q").code == 0
    assert '"workflow":"prose"' in call("list", "--json").out


@pytest.mark.parametrize("name", ["Makefile", "run.sh", "data.csv", "plan.yaml", "app.js", "stub.pyi", "LICENSE"])
def test_any_other_file_is_refused_and_both_workflows_are_named(folder: Path, name: str):
    (folder / name).write_text("teh the the\n")
    refused = call("run", f"./{name}")
    assert (refused.code, refused.out) == (2, "")
    assert "--workflow prose, --workflow code" in one_line(refused)
    assert not (folder / "store.db").exists()
    assert call("run", "-w", "prose", f"./{name}", "-q").out == "teh the the\n"


def test_tests_without_pytest_are_refused_before_anything_is_recorded(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "sums.py").write_text("def double(x):\n    return x * 2\n")
    (folder / "test_sums.py").write_text("def test_double():\n    assert True\n")
    monkeypatch.setattr(briefs, "find_spec", lambda name: None)
    refused = call("run", "sums.py", "--tests", "test_sums.py")
    assert (refused.code, refused.out) == (2, "")
    assert one_line(refused) == "--tests need pytest, which is not installed; install it: pip install pytest"
    assert not (folder / "store.db").exists()


def test_code_keeps_what_others_may_import_and_formats_nothing(folder: Path):
    (folder / "ssl_like.py").write_text("from json import dumps, loads\nimport re as _re\nx = { 'a':1 }\n")
    assert call("run", "ssl_like.py", "-q").out == "from json import dumps, loads\nx = { 'a':1 }\n"


def test_json_is_one_document_whatever_the_users_functions_print():
    said = call("run", "loud.py:loud", "Tides", "--json")
    assert said.code == 0
    document = json.loads(said.out)
    assert list(document)[:8] == ["run", "outcome", "reason", "iterations", "score", "draft", "critiques", "attempts"]
    assert (document["outcome"], document["iterations"], document["score"]) == ("accepted", 3, 1.0)
    assert document["draft"]["text"] == "Tides!!"
    assert len(document["draft"]["sha256"]) == 64
    assert [each["critique"]["score"] for each in document["critiques"]] == [0, 0.5, 1]
    assert [each["changes"] for each in document["attempts"]] == [["shouted"], ["shouted"]]
    assert "text_after" not in document["attempts"][0]
    assert said.err.count("judging\n") == 3


def test_the_texts_before_and_after_each_refinement_are_there_on_demand():
    attempts = json.loads(call("run", "loud.py:loud", "Tides", "--json", "--texts").out)["attempts"]
    assert [(each["text_before"], each["text_after"]) for each in attempts] == [
        ("Tides", "Tides!"),
        ("Tides!", "Tides!!"),
    ]
    refused = call("run", "loud.py:loud", "Tides", "--texts")
    assert (refused.code, refused.err) == (2, "redraft: --texts is for --json: add --json, or leave it out\n")


def test_a_shipped_workflow_in_json_publishes_into_the_document():
    said = call("run", "The tide comes in.", "--json", "--quiet")
    document = json.loads(said.out)
    assert document["draft"]["text"] == "The tide comes in."
    assert document["publications"][0]["location"] == "stdout"
    assert said.err == ""


def test_a_workflow_without_a_publisher_prints_its_draft():
    assert call("run", "loud.py:loud", "Tides", "--quiet").out == "Tides!!"


def test_standard_input_is_a_source(folder: Path):
    said = spawn("run", "-", "--quiet", folder=folder, stdin="Ebb and flöw.\r\n")
    assert (said.code, said.err) == (0, "")
    assert said.out == "Ebb and flöw.\n"  # the pipe's text mode reads CRLF as one line end
    assert call("show", "last", "--text").out == "Ebb and flöw.\r\n"


def test_until_and_max_iterations_override_the_loop():
    short = json.loads(call("run", "loud.py:loud", "Tides", "--max-iterations", "1", "--json").out)
    assert (short["outcome"], short["iterations"]) == ("exhausted", 1)
    early = call("run", "loud.py:loud", "Tides", "--until", "score >= 0.5", "--json")
    assert early.code == 0
    assert json.loads(early.out)["iterations"] == 2


def test_a_run_that_is_not_accepted_ends_with_3_and_says_why():
    said = call("run", "loud.py:loud", "Tides", "--max-iterations", "1", "--quiet")
    assert (said.code, said.out) == (3, "Tides!")
    assert said.err.splitlines()[-1].startswith("redraft: exhausted, score 0.50, 1 iteration, run ")


def test_the_same_key_is_the_same_run():
    first = json.loads(call("run", "loud.py:loud", "Tides", "--key", "one", "--json").out)
    again = call("run", "loud.py:loud", "Tides", "--key", "one", "--json")
    assert json.loads(again.out) == first
    assert len(json.loads(call("list", "--json").out)) == 1


def test_a_key_that_was_used_for_something_else_is_refused(folder: Path):
    first = json.loads(call("run", "loud.py:loud", "Tides", "--key", "one", "--json").out)["run"]
    brief = call("run", "loud.py:loud", "Ebb", "--key", "one")
    assert (brief.code, brief.out) == (2, "")
    assert one_line(brief) == f"key 'one' was used for another brief: run {first}; give another key"
    other = call("run", "prose", "Tides", "--key", "one")
    assert (other.code, other.out) == (2, "")
    assert one_line(other) == f"key 'one' was used for another workflow, loud: run {first}; give another key"
    for option in (("--tag", "sea"), ("--max-iterations", "1"), ("--budget", "calls=1")):
        changed = call("run", "loud.py:loud", "Tides", "--key", "one", *option)
        what = "tags" if option[0] == "--tag" else "limits"
        assert one_line(changed) == f"key 'one' was used for other {what}: run {first}; give another key"
    assert len(json.loads(call("list", "--json").out)) == 1


def test_resuming_a_run_that_has_ended_prints_its_result():
    first = json.loads(call("run", "loud.py:loud", "Tides", "--json").out)
    assert json.loads(call("run", "--resume", "last", "--json").out) == first
    assert call("run", "--resume", first["run"][-8:], "--quiet").out == "Tides!!"
    assert call("run", "--resume", first["run"][:12]).code == 0


def test_out_publishes_whole_and_again_is_the_same(folder: Path):
    for _ in range(2):
        said = call("run", "prose", "The tide comes in.", "--out", "out.txt")
        assert (said.code, said.out) == (0, "")
        assert (folder / "out.txt").read_text() == "The tide comes in."
    assert sorted(path.name for path in folder.glob("*out*")) == ["out.txt"]


def test_a_plan_in_yaml_with_a_command_and_functions_of_a_file(folder: Path):
    (folder / "plan.yaml").write_text(
        """
name: mixed
steps:
  - generate: {actor: source}
  - repeat:
      until: score >= 1
      max_iterations: 4
      body:
        - critique: {actor: judge}
        - refine: {actor: command, with: {run: [sed, "s/$/!/"]}}
  - publish: {actor: file, with: {path: "result-{version}.txt"}}
"""
    )
    said = call("run", "plan.yaml", "Tides", "--actors", "loud.py")
    assert said.code == 0, said.err
    assert (folder / "result-3.txt").read_text() == "Tides!!"
    redirected = call("run", "plan.yaml", "Tides", "--actors", "loud.py", "--out", "here.txt")
    assert redirected.code == 0, redirected.err
    assert (folder / "here.txt").read_text() == "Tides!!"


def test_settings_come_from_flags_before_the_environment_before_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "redraft.toml").write_text('max_draft_bytes = 10\nstore = "sqlite:///file.db"\n')
    assert "the limit of 10 bytes" in one_line(call("run", "-", stdin=b"The tide comes in."))
    monkeypatch.setenv("REDRAFT_MAX_DRAFT_BYTES", "1000")
    assert call("run", "-", "--quiet", stdin=b"The tide comes in.").code == 0
    assert (folder / "store.db").exists()
    assert call("run", "-", "--quiet", "--store", "sqlite:///flag.db", stdin=b"The tide comes in.").code == 0
    assert (folder / "flag.db").exists()
    assert not (folder / "file.db").exists()


def test_a_plan_is_printed_in_every_form_and_read_back(folder: Path):
    yaml = call("plan", "loud.py:loud").out
    (folder / "loud.yaml").write_text(yaml)
    assert call("plan", "loud.yaml").out == yaml
    assert call("plan", "loud.yaml", "--as", "mermaid").out.count("flowchart TD") == 1
    assert json.loads(call("plan", "loud.yaml", "--json").out) == json.loads(call("plan", "loud.py:loud", "--json").out)


def test_a_terminal_gets_a_status_line_beside_the_lines_that_stay(folder: Path):
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "redraft", "run", "loud.py:loud", "Tides"],
        cwd=folder,
        env=environment(folder, {"TERM": "xterm", "COLUMNS": "200"}),
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as process:
        os.close(theirs)
        text = shown_on(ours)
        assert process.stdout
        assert process.stdout.read() == "Tides!!"
        assert process.wait(60) == 0
    assert "Refinement: iteration 2 of 5, score 0.00, critic judge" in text
    assert "Refinement[2]/judge: critic judge scored draft 2 at 0.50" in text
    assert "\x1b[2K" in text
    assert text.endswith("\r\n")
