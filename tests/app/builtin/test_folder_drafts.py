"""The shipped critics, refiners and publishers with drafts of several files: real pytest, ruff, git and programs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from model_server import ModelServer, message_of, read_script
from tests.app.builtin.carrying_out import critique_of, fault_of, folder, outcome_of, receipt_of
from tests.app.cli_calls import call, one_line
from tests.app.quick_python import quick_python
from tests.trials import first_alone

from redraft.actors.workflow.actor import Actor
from redraft.app.builtin.gates.programs import names_critic, python_critic
from redraft.app.builtin.programs.command import command_critic, command_refiner
from redraft.app.builtin.programs.pytest_critic import pytest_critic
from redraft.app.builtin.programs.ruff import ruff_critic, ruff_refiner
from redraft.app.builtin.publishers.files import file_publisher
from redraft.app.builtin.publishers.web import html_publisher
from redraft.events.messages.commands import (
    Failed,
    Refined,
)
from redraft.events.messages.content import Draft, new_draft
from redraft.events.messages.folders import FOLDER, File, print_folder, read_folder
from redraft.events.messages.plan import Option

EXAMPLES = Path(__file__).parents[3] / "examples"
IT = "tests/test_it.py"
CONFTEST = "tests/conftest.py"
QUICK = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    monkeypatch.setenv(QUICK, "1")


@pytest.mark.check
def test_a_package_of_ten_files_is_mended_until_its_tests_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.read_bytes() for path in (EXAMPLES / "shop").glob("*.py")}
    assert len(before) == 10
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'store.db'}")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789abcdef")
    monkeypatch.setattr(sys, "executable", quick_python(tmp_path))
    out = tmp_path / "mended"
    with ModelServer(read_script(EXAMPLES / "answers" / "shop.jsonl")) as server:
        monkeypatch.setenv("REDRAFT_MODEL_URL", server.url)
        said = call("run", "shop", "--tests", "shop_tests", "--model", "openai:gpt-4o", "--out", str(out))
        assert server.left == []
        first = message_of(server.asked[0]["body"])
    assert said.code == 0, said.err
    assert "=== tax.py" in first
    assert "test_tax_is_a_share_of_the_price" in first
    assert {path: path.read_bytes() for path in (EXAMPLES / "shop").glob("*.py")} == before
    assert len([*out.iterdir()]) == 11
    assert "def whole" in (out / "rounding.py").read_text()
    out.rename(tmp_path / "shop")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            f"--rootdir={tmp_path}",
            f"--config-file={os.devnull}",
            EXAMPLES / "shop_tests",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()
    shown = call("diff", "last", "1", "3").out
    assert "=== tax.py" in shown
    assert "+ === rounding.py" in shown
    assert call("audit", "last", "--verify").code == 0


async def test_ruff_judges_and_mends_each_file() -> None:
    files = {"a.py": "import os\n\n\ndef f():\n    x = 1\n", "b/c.py": "import sys\n__all__ = ['sys']\n"}
    draft = folder({**files, "notes": "import os\n"})
    said = await critique_of(ruff_critic, draft, select=["F"])
    assert [error.partition(":")[0] for error in said.errors] == ["a.py"]
    assert said.measures["findings"] == 1
    assert 0 < said.score < 1
    (issue,) = [each for each in said.issues if each.severity == "error"]
    assert draft.text[slice(*(issue.span or (0, 0)))] == issue.quote
    code = "def f():\n    x = not 1 == 2\n    return x\n"
    outcome = await outcome_of(ruff_refiner, folder({"a.py": code, "b.py": "def ("}))
    assert isinstance(outcome, Refined)
    assert read_folder(outcome.text)["b.py"].text == "def ("
    assert (await critique_of(ruff_critic, folder({"a.py": "def (\n", "b.py": "x = 1\n"}))).score == 0
    assert (await critique_of(ruff_critic, folder({"empty.py": "", "b.py": "x = 1\n"}))).score == 1


async def test_ruff_says_that_there_is_nothing_for_it() -> None:
    said = await fault_of(ruff_critic, folder({"a.c": "int x;\n"}))
    assert said == "ruff: no file of the draft is Python (.py, .pyi); judge it by another critic"


async def test_each_module_compiles_and_keeps_its_names() -> None:
    code = "def one(): ...\ndef two(): ...\n"
    before = folder({"a.py": code, "b.py": "def three(): ...\n", "_c.py": "_x = 1\n", "d": "def (\n"})
    assert (await critique_of(names_critic, before, before)).approved is not False
    after = folder({"a.py": "def one(): ...\n", "new.py": "x = 1\n", "d": "def (\n"}, 2)
    said = await critique_of(names_critic, after, before)
    assert [*said.errors] == ["a.py: the name two is gone", "b.py: the name three is gone"]
    said = await critique_of(python_critic, folder({"a.py": "x = 1\n", "b.py": "x = (\n"}))
    assert [error.partition(":")[0] for error in said.errors] == ["b.py"]


def write_tests(where: Path, text: str) -> None:
    where.mkdir(parents=True, exist_ok=True)
    (where / "test_it.py").write_text(text)


@pytest.mark.check
async def test_a_package_is_tested_where_it_is(tmp_path: Path) -> None:
    write_tests(tmp_path / "tests", "from pkg.a import f\n\n\ndef test_f():\n    assert f() == 2\n")
    (tmp_path / "src" / "pkg").mkdir(parents=True)
    code = "from pkg.b import N\n\n\ndef f():\n    return N // 0\n"
    draft = folder({"pkg/__init__.py": "", "pkg/a.py": code, "pkg/b.py": "N = 2\n"})
    said = await critique_of(pytest_critic, draft, tests=["tests"], env_pass=[QUICK], coverage=True)
    assert (said.score, said.measures["failing"]) == (0, 1)
    assert "ZeroDivisionError" in said.errors[0]
    (issue,) = said.issues
    assert issue.quote == "return N // 0"
    assert draft.text[slice(*(issue.span or (0, 0)))] == "return N // 0"
    mended = new_draft(2, draft.text.replace("N // 0", "N"), FOLDER)
    said = await critique_of(pytest_critic, mended, draft, tests=["tests"], env_pass=[QUICK], coverage=True)
    assert (said.score, said.measures["coverage"]) == (1, 1)
    kept = await critique_of(pytest_critic, draft, mended, tests=["tests"], env_pass=[QUICK], kept=True)
    assert kept.measures == {"broken": 1}


@pytest.mark.check
@pytest.mark.parametrize("tests", first_alone(["src/tests", "src/tests/test_it.py", "src", "."]))
async def test_a_draft_cannot_change_the_tests_that_lie_among_its_files(tmp_path: Path, tests: str) -> None:
    test = "from a import N\n\n\ndef test_n():\n    assert N == 2\n"
    write_tests(tmp_path / "src" / "tests", test)
    (tmp_path / "src" / "a.py").write_text("N = 1\n")
    before = folder({"a.py": "N = 1\n", IT: test})
    cheats = (
        folder({"a.py": "N = 1\n", IT: "def test_n(): ...\n"}, 2),
        folder({"a.py": "N = 1\n"}, 2),
        folder({"a.py": "N = 1\n", IT: test, CONFTEST: "collect_ignore = ['test_it.py']\n"}, 2),
        folder({"a.py": "import pytest\npytest.skip(allow_module_level=True)\nN = 1\n", IT: test}, 2),
        folder({"a.py": "N = 1\n", "tests": "a file in the place of the folder\n"}, 2),
    )
    for cheat in cheats:
        said = await critique_of(pytest_critic, cheat, before, tests=[tests], env_pass=[QUICK])
        assert said.score == 0, cheat.text
    good = folder({"a.py": "N = 2\n", IT: test}, 2)
    assert (await critique_of(pytest_critic, good, before, tests=[tests], env_pass=[QUICK])).score == 1


async def test_nothing_outside_is_touched_through_a_link_of_the_project(tmp_path: Path) -> None:
    write_tests(tmp_path / "project" / "tests", "def test_it(): ...\n")
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.py").write_text("theirs\n")
    (tmp_path / "project" / "src").mkdir()
    (tmp_path / "project" / "src" / "sub").symlink_to(tmp_path / "real")
    for path in ("sub/a.py", "sub/a.py/b", "sub/new"):
        draft = folder({path: "ours\n"})
        said = await outcome_of(pytest_critic, draft, source="project/src", tests=["tests"], project="project")
        assert isinstance(said, Failed)
        assert "reached by a link that leads out of the project" in said.message
        assert [*(tmp_path / "real").iterdir()] == [tmp_path / "real" / "a.py"]
        assert (tmp_path / "real" / "a.py").read_text() == "theirs\n"


async def test_a_program_works_on_the_files(tmp_path: Path) -> None:
    draft = folder({"a.py": "x = 1\n", "b/c": b"\0"})
    count: list[Option] = ["sh", "-c", "test $(find {folder} -type f | wc -l) = 2"]  # type: ignore[list-item]
    assert (await critique_of(command_critic, draft, run=count, input="folder")).score == 1  # type: ignore[arg-type]
    change = ["sh", "-c", "cd {folder} && rm a.py && echo 'y = 2' > z.py"]
    outcome = await outcome_of(command_refiner, draft, run=change, input="folder", output="folder")  # type: ignore[arg-type]
    assert isinstance(outcome, Refined), outcome
    assert outcome.text == print_folder({"b/c": b"\0", "z.py": "y = 2\n"})
    for options, said in (
        ({"run": change, "input": "folder", "output": "file"}, "no file is given to the program"),
        ({"run": change}, "an argument says {folder}"),
        ({"run": ["true"], "input": "folder"}, "no argument says {folder}"),
        ({"run": ["ln", "-s", "/etc/passwd", "{folder}/l"], "input": "folder", "output": "folder"}, "symbolic link"),
    ):
        assert said in await fault_of(command_refiner, draft, **options)  # type: ignore[arg-type]


async def test_the_files_are_written_into_a_folder_and_nothing_else_is_touched(tmp_path: Path) -> None:
    (tmp_path / "out" / "src").mkdir(parents=True)
    (tmp_path / "out" / "src" / "theirs.txt").write_text("theirs")
    (tmp_path / "out" / "src" / "old_py").write_text("old")
    before = folder({"a.py": "x = 1\n", "old": "x"})
    draft = folder({"a.py": "x = 2\n", "run": File(b"#!/bin/sh\n", executable=True), "b/data": b"\0"}, 2)
    publisher = file_publisher(tmp_path / "out")
    (tmp_path / "out" / "src" / "old").write_text("x")
    first = await receipt_of(publisher, draft, before, path="src")
    assert first == f"{tmp_path}/out/src: 3 files, 17 bytes, version 2; left there, though it is no part of it: old"
    assert await receipt_of(publisher, draft, before, path="src") == first
    there = {str(path.relative_to(tmp_path / "out" / "src")) for path in (tmp_path / "out" / "src").rglob("*")}
    assert there == {"a.py", "run", "b", "b/data", "theirs.txt", "old_py", "old"}
    assert os.access(tmp_path / "out" / "src" / "run", os.X_OK)
    assert (await receipt_of(publisher, draft, before)).startswith(f"{tmp_path}/out/src.redraft: 3 files")


async def test_a_publication_in_place_is_repeated_and_replaced_by_the_next_one_of_its_run(tmp_path: Path) -> None:
    before = folder({"a.py": "x = 1\n", "b.py": "b\n", "c.py": "c\n"})
    first = folder({"a.py": "x = 2\n", "b.py": "b 2\n", "c.py": "c\n", "d.py": "d\n"}, 2)
    second = folder({"a.py": "x = 3\n", "b.py": "b\n", "c.py": "c\n", "d.py": "d\n"}, 3)

    def lie(**texts: str) -> None:
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)

    async def publish(publisher: Actor, draft: Draft) -> str:
        return await receipt_of(publisher, draft, before, path=".", in_place=True)

    lie(a="x = 1\n", b="b 2\n", c="a person\n")  # as where an attempt was killed between two files
    publisher = file_publisher(tmp_path)
    said = await publish(publisher, first)
    assert said.endswith(": 3 files, 12 bytes, version 2")
    assert await publish(publisher, first) == said
    assert await publish(file_publisher(tmp_path), first) == said  # of another process
    lie(d="a person\n")
    assert "d.py was changed" in await fault_of(publisher, second, before, path=".", in_place=True)
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
    lie(d="d\n")
    assert (await publish(publisher, second)).endswith(": 3 files, 10 bytes, version 3")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a.py": "x = 3\n",
        "b.py": "b\n",
        "c.py": "a person\n",
        "d.py": "d\n",
    }
    assert "a.py was changed" in await fault_of(file_publisher(tmp_path), first, before, path=".", in_place=True)


async def test_nothing_is_written_where_one_file_may_not_be(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for number, make in enumerate(("folder", "link", "file", "dangling")):
        (out / f"{number}").mkdir(parents=True)
        match make:
            case "folder":
                (out / f"{number}" / "z.py").mkdir()
            case "link":
                (out / f"{number}" / "z.py").symlink_to(tmp_path / "elsewhere")
            case "dangling":
                (out / f"{number}" / "m").symlink_to(tmp_path / "elsewhere")
            case _:
                (out / f"{number}" / "m").write_text("a file")
        draft = folder({"a.py": "x = 1\n", "m/b.py": "y = 1\n", "z.py": "z = 1\n"})
        assert (await fault_of(file_publisher(out), draft, path=f"{number}")).startswith("file: ")
        assert not (out / f"{number}" / "a.py").exists()
    for path in ("../up", "/etc", ".git", "x/../../y"):
        assert (await fault_of(file_publisher(out), folder({"a.py": "x"}), path=path)).startswith("file: ")
    assert "several files" in await fault_of(html_publisher(out), folder({"a.py": "x"}))


def test_a_folder_is_run_simulated_and_shown_as_any_draft_is(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("import os\nx = 1\n")
    (tmp_path / "src" / "__pycache__").mkdir()
    said = call("run", "src", "--out", ".")
    assert said.code == 0, said.err
    assert (tmp_path / "a.py").read_text() == "import os\nx = 1\n"
    assert call("show", "last", "--text").out == "=== a.py\nimport os\nx = 1\n"
    assert call("show", "last", "--at", "3").code == 0
    (tmp_path / "src" / "link").symlink_to("/etc/passwd")
    assert "link: this is a symbolic link" in one_line(call("run", "src"))


def test_a_folder_of_texts_is_mended_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "docs" / "more").mkdir(parents=True)
    (tmp_path / "docs" / "one.md").write_text("# Tides\n\nThe the sea rises.\n")
    (tmp_path / "docs" / "more" / "two.txt").write_text("It falls in the the night.\n")
    (tmp_path / "docs" / "data.json").write_text('{"the the": 1}\n')
    said = call("run", "docs", "--out", "docs")
    assert said.code == 0, said.err
    assert (tmp_path / "docs" / "one.md").read_text() == "# Tides\n\nThe sea rises.\n"
    assert (tmp_path / "docs" / "more" / "two.txt").read_text() == "It falls in the night.\n"
    assert (tmp_path / "docs" / "data.json").read_text() == '{"the the": 1}\n'
    assert "one.md: line 3" in call("audit", "last", "--json").out


@pytest.mark.check
def test_a_person_edits_with_a_folder(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("import os\n\n\ndef f():\n    return 1\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("from a import f\n\n\ndef test_f():\n    assert f() == 2\n")
    (tmp_path / "plan.yaml").write_text(
        "name: asks\nsteps:\n- generate: {actor: source}\n- repeat:\n    until: errors == 0\n    max_iterations: 1\n"
        "    body:\n    - critique: {actor: ruff}\n- approve: {name: ok}\n- publish: {actor: stdout}\n"
    )
    with start(tmp_path, "run", "plan.yaml", "src") as run:
        wait_for(lambda: "waits" in call("show", "last").out)
        (tmp_path / "src" / "a.py").write_text("def f():\n    return 2\n")
        (tmp_path / "src" / "b.py").write_text("x = 1\n")
        assert call("edit", "last", "src").code == 0
        (tmp_path / "plain.py").write_text("x = 1\n")
        assert "begins with a line such as" in one_line(call("edit", "last", "plain.py"))
        wait_for(lambda: call("approve", "last").code == 0)
        out, _ = run.communicate(timeout=60)
    assert run.returncode == 0
    assert out.decode() == "=== a.py\ndef f():\n    return 2\n=== b.py\nx = 1\n"


@contextmanager
def start(where: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(Path(sys.executable).with_name("redraft")), *arguments]
    with subprocess.Popen(command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        try:
            yield run
        finally:
            run.kill()


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
