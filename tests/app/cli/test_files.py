"""`redraft files`, and what runs it: the hook in a repository by pre-commit itself, and the steps of the action."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.app.cli_calls import call, document, start, until
from tests.pages import ROOT
from tests.processes import plain

BAD = "This is teh tide. It comes in.\n"
GOOD = "This is the tide. It comes in.\n"
MANIFEST = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
ACTION = yaml.safe_load((ROOT / "deploy" / "github-action" / "action.yml").read_text(encoding="utf-8"))


def test_a_file_is_judged_as_it_lies_there_and_left_alone(home: Path) -> None:
    (home / "a.md").write_text(BAD)
    (home / "b.md").write_text(GOOD)
    said = call("files", "a.md", "b.md", "--min-score", "0.9")
    assert said.code == 3
    assert re.search(r"^a\.md: score 0\.88\d, below 0\.9, refined it has 1\.00 \(run \w+\)$", said.out, re.MULTILINE)
    assert '  line 1: "teh" -> "the"' in said.out
    assert re.search(r"^b\.md: score 1\.00 \(run \w+\)$", said.out, re.MULTILINE)
    assert said.err.endswith("2 files, 1 below 0.9, 0 written\n")
    assert (home / "a.md").read_text() == BAD
    assert call("files", "a.md", "--min-score", "0.5").code == 0


def test_what_is_better_is_written_and_nothing_else_of_the_file_changes(home: Path) -> None:
    file = home / "a.md"
    file.write_bytes(b"\xef\xbb\xbf" + BAD.replace("\n", "\r\n").encode())
    file.chmod(0o700)
    found = document("files", "a.md", "--write", "--min-score", "0.9")
    (each,) = found["files"]
    assert (each["written"], each["is_below"], each["after"]) == (True, False, 1.0)
    assert file.read_bytes() == b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()
    assert file.stat().st_mode & 0o777 == 0o700
    assert document("show", each["run"])["ended"]["outcome"] == "accepted"


HELD = """
import asyncio
from pathlib import Path
from redraft.actors import Critique, Workflow, critic, step

@critic
async def judge(draft):
    while "held" in draft.text:
        Path("is_held").touch()
        await asyncio.sleep(0.01)
    return Critique(1.0)

held = Workflow("held").start_with(step("source", role="generator"), judge)
"""


def test_a_file_whose_run_is_set_aside_is_reported_and_the_others_are_refined(home: Path) -> None:
    (home / "held.py").write_text(HELD)
    (home / "a.md").write_text("held")
    (home / "b.md").write_text(GOOD)
    with start("files", "a.md", "b.md", "-w", "held.py:held", "--json", folder=home) as process:
        until((home / "is_held").exists)
        (run,) = [each["run"] for each in document("list") if each["brief"] == "held"]
        assert call("quarantine", run, "--reason", "it is wrong").code == 0
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    one, other = json.loads(out)["files"]
    assert (one["file"], one["run"], one["outcome"], one["is_below"]) == ("a.md", run, "failed", True)
    assert one["reason"].startswith(f"run {run} was set aside by ")
    assert (other["file"], other["outcome"], other["after"]) == ("b.md", "accepted", 1.0)


def test_a_link_is_passed_over_and_stays_a_link(home: Path) -> None:
    (home / "real.md").write_text(BAD)
    (home / "link.md").symlink_to("real.md")
    said = call("files", "--write", "link.md")
    assert (said.code, said.out) == (0, "")
    assert said.err.startswith(
        "redraft: passed over: link.md: this is a symbolic link, and only plain files are written"
    )
    assert (home / "link.md").readlink() == Path("real.md")
    assert (home / "real.md").read_text() == BAD


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("given.txt")], ids=["fifo", "link"])
@pytest.mark.parametrize(
    ("words", "option", "name"),
    [
        (["export", "-o"], "--out", "it"),
        (["audit", "last", "--export"], "--export", "it.jsonl"),
        (["files", "a.md", "--report"], "--report", "it"),
        (["audit", "--all", "--key", "a.pem", "--checkpoint"], "--checkpoint", "it"),
    ],
)
def test_what_is_no_plain_file_is_not_replaced(home: Path, make: Any, words: list[str], option: str, name: str) -> None:
    (home / "a.md").write_text(GOOD)
    (home / "given.txt").write_text("kept")
    make(home / name)
    kind = (home / name).lstat().st_mode
    assert call("files", "a.md").code == 0
    assert call("key", "signing", "a.pem").code == 0
    said = call(*words, name)
    assert (said.code, said.out) == (2, "")
    assert said.err.endswith(f"{option} {name}: this is not a plain file; name another one\n")
    assert said.err.count("\n") == 1
    assert (home / name).lstat().st_mode == kind
    assert (home / "given.txt").read_text() == "kept"


def test_an_empty_file_is_passed_over(home: Path) -> None:
    (home / "a.md").write_text(GOOD)
    (home / "empty.md").write_text("")
    (home / "blank.md").write_text("\n \n")
    said = call("files", "empty.md", "a.md", "blank.md", "--json")
    assert said.code == 0
    assert [each["file"] for each in json.loads(said.out)["files"]] == ["a.md"]
    for name in ("empty.md", "blank.md"):
        assert f"passed over: {name}: the text is empty" in said.err
    assert call("files", "empty.md").code == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "name files, or those that git knows as changed with --since COMMIT"),
        (["a.md", "--since", "HEAD"], "not both"),
        (["none.md"], "none.md: there is no such file"),
        (["table.csv"], "table.csv: by its name this is neither text"),
        (["--since=--output=x"], "is no name of a commit"),
        (["--since", "nowhere"], "--since nowhere: "),
        (["a.md", "-w", "own.yaml"], "own.yaml writes its own first draft"),
    ],
)
def test_what_cannot_be_ends_in_a_line(home: Path, words: list[str], line: str) -> None:
    (home / "a.md").write_text(BAD)
    (home / "table.csv").write_text("a,b\n")
    (home / "own.yaml").write_text(call("plan", "prose").out.replace("source", "command"))
    said = call("files", *words)
    assert (said.code, said.out) == (2, ""), said
    assert line in said.err
    assert said.err.count("\n") == 1
    assert (home / "a.md").read_text() == BAD


def git(folder: Path, *words: str, **more: Any) -> str:
    names = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b.c",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b.c",
    }
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false", *words],
        cwd=folder,
        env=plain(**names),
        capture_output=True,
        text=True,
        check=True,
        **more,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(home: Path) -> Path:
    """A repository with one commit, to which a good and a bad file, and a table, were added since."""
    folder = home / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "old.md").write_text("Sum teh text, which nobody touches.\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "begin")
    git(folder, "tag", "base")
    (folder / "bad one.md").write_text(BAD)
    (folder / "good.md").write_text(GOOD)
    (folder / "table.csv").write_text("a,b\n")
    (folder / "link.md").symlink_to("good.md")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "more")
    return folder


def test_only_what_was_changed_is_refined(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    said = call("files", "--since", "base", "--json")
    assert sorted(each["file"] for each in json.loads(said.out)["files"]) == ["bad one.md", "good.md"]
    assert "passed over: table.csv: by its name" in said.err


def run_action(repository: Path, tmp: Path, **inputs: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Runs the last step of the action by bash, with its `env` filled in as GitHub does."""
    step = ACTION["runs"]["steps"][-1]
    given = {name: str(each.get("default", "")) for name, each in ACTION["inputs"].items()} | inputs
    values = {f"inputs.{name}": value for name, value in given.items()} | {"runner.temp": str(tmp)}
    environment = {
        name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values[found[1]], str(value))
        for name, value in step["env"].items()
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    outputs = tmp / "outputs"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=repository,
        env=plain(PATH=path, GITHUB_OUTPUT=str(outputs), **environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert outputs.read_text().splitlines()[-1] == f"report={tmp / 'redraft.json'}"
    report = tmp / "redraft.json"
    return done, json.loads(report.read_text()) if report.exists() else {}


@pytest.mark.check
def test_the_action_fails_below_the_score_and_annotates_the_file(repository: Path, tmp_path: Path) -> None:
    done, report = run_action(repository, tmp_path, since="base", **{"min-score": "0.9"})
    assert done.returncode == 3, done.stderr
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("::")]
    assert line.startswith("::error file=bad one.md,title=Redraft::score 0.88")
    assert '%0Aline 1: "teh" -> "the"' in line
    assert {each["file"]: each["is_below"] for each in report["files"]} == {"bad one.md": True, "good.md": False}
    done, report = run_action(repository, tmp_path, since="base", write="true", **{"min-score": "0.9"})
    assert done.returncode == 0, done.stderr
    assert (repository / "bad one.md").read_text() == GOOD
    assert "::notice file=bad one.md" in done.stdout


@pytest.mark.check
def test_the_action_takes_no_command_for_an_input(repository: Path, tmp_path: Path) -> None:
    done, _ = run_action(repository, tmp_path, since='base"; touch taken; "', workflow="$(touch taken)")
    assert done.returncode == 2
    assert not (repository / "taken").exists()


@pytest.mark.check
def test_the_action_and_the_hooks_are_as_their_schemas_say() -> None:
    for schema, file in (("github-actions", "deploy/github-action/action.yml"),):
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(ROOT / file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def own_repository(folder: Path) -> str:
    """A copy of this repository as it is, committed; returns its commit."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    for name in filter(None, map(os.fsdecode, listed.split(b"\0"))):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "all")
    return git(folder, "rev-parse", "HEAD")


@pytest.mark.check
@pytest.mark.timeout(900)
def test_the_hook_is_installed_and_run_by_pre_commit(repository: Path, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    commit = own_repository(hooks)
    hook = {"id": "redraft", "args": ["--min-score", "0.9"]}
    settings = {"repos": [{"repo": str(hooks), "rev": commit, "hooks": [hook]}]}
    (repository / ".pre-commit-config.yaml").write_text(json.dumps(settings))
    git(repository, "add", ".")
    environment = plain(
        PRE_COMMIT_HOME=str(tmp_path / "home"),
        REDRAFT_STORE=f"sqlite:///{tmp_path / 'hook.db'}",
        PIP_CONSTRAINT=str(ROOT / "constraints.txt"),
        PYTHONWARNINGS="ignore",
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pre_commit", "run", *words]
        return subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)

    first = run("--from-ref", "base", "--to-ref", "HEAD")
    assert first.returncode == 1, first.stdout + first.stderr
    assert "files were modified by this hook" in first.stdout
    assert "bad one.md: score 1.00, written; it was 0.88" in first.stdout
    assert (repository / "bad one.md").read_text() == GOOD
    assert (repository / "old.md").read_text().startswith("Sum teh")
    git(repository, "commit", "--all", "--quiet", "-m", "refined")
    second = run("--from-ref", "base", "--to-ref", "HEAD")
    assert second.returncode == 0, second.stdout
