"""What a command imports before it does anything, the list of verbs, their help, and completion in shells."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import typer
from tests.app.cli_calls import begin, call, one_line, said
from typer.core import TyperGroup

from redraft.app.cli.main import APP
from redraft.app.cli.verb_list import GROUPS, VERBS

HEAVY = ("pydantic", "pydantic_settings", "msgspec", "asyncio", "eventsourcing", "sqlite3", "rich", "yaml", "uvloop")
SERVERS = ("aio_pika", "psycopg", "pydantic_ai", "jinja2", "structlog", "uvloop", "openai", "cryptography")


def imported(*arguments: str, folder: Path) -> set[str]:
    """The modules that a Python that runs this command has imported when it ends."""
    program = (
        "import json, sys; from redraft.app.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print(json.dumps(list(sys.modules)), file=sys.stderr)"
    )
    environment = {"REDRAFT_STORE": f"sqlite:///{folder / 'store.db'}", "PATH": ""}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_import_none_of_the_verbs_and_of_what_they_need(option: str, tmp_path: Path):
    modules = imported(option, folder=tmp_path)
    assert modules.isdisjoint(HEAVY + SERVERS)
    assert not {name for name in modules if name.startswith("redraft.app.cli.verbs.")}


@pytest.mark.check
def test_a_verb_is_imported_without_the_others_and_without_servers(tmp_path: Path):
    modules = imported("list", "--help", folder=tmp_path)
    assert modules.isdisjoint(SERVERS)
    assert {name for name in modules if name.startswith("redraft.app.cli.verbs.")} == {
        "redraft.app.cli.verbs.reading",
        "redraft.app.cli.verbs.reading.list_runs",
    }


@pytest.mark.check
def test_the_list_of_runs_is_read_without_the_libraries_of_servers_and_models(tmp_path: Path):
    assert begin("run", "--quiet", "--text", "This is is short.", folder=tmp_path).code == 0
    assert imported("list", folder=tmp_path).isdisjoint(SERVERS)


def test_help_lists_every_verb_once_in_its_group():
    lines = said("--help").splitlines()
    listed = {line.split()[0]: line for line in lines if line.startswith("  ") and line.split()[0] in VERBS}
    assert list(listed) == list(VERBS)
    assert all(verb.summary in listed[name] for name, verb in VERBS.items())
    assert [line.rstrip(":") for line in lines if line.rstrip(":") in GROUPS] == list(GROUPS)
    assert all(len(line) <= 80 for line in lines)


def commands() -> Iterator[Sequence[str]]:
    """Every verb and every sub-verb, by its words."""
    group = typer.main.get_command(APP)
    assert isinstance(group, TyperGroup)
    context = typer.Context(group, info_name="redraft")
    for name in group.list_commands(context):
        yield (name,)
        verb = group.get_command(context, name)
        if isinstance(verb, TyperGroup):
            yield from ((name, each) for each in verb.commands)


COMMANDS = list(commands())


def test_there_are_verbs_and_sub_verbs():
    assert len(COMMANDS) > len(VERBS) > 30


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_verb_and_sub_verb_has_help_with_an_example_of_itself(words: Sequence[str], tmp_path: Path):
    shown = call(*words, "--help")
    assert (shown.code, shown.err) == (0, "")
    told, _, examples = shown.out.partition("Example")
    assert f"redraft {' '.join(words)} " in examples.replace("\n", " ")
    assert all(len(line) <= 80 for line in told.splitlines())


def test_a_verb_that_there_is_not_is_a_wrong_usage():
    wrong = call("lits")
    assert wrong.code == 2
    assert "no such command 'lits'" in one_line(wrong)
    assert "list" in one_line(wrong)


def completed(*words: str, folder: Path) -> set[str]:
    """What bash would offer for the last word."""
    settings = {"_REDRAFT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    return set(begin(folder=folder, **settings).out.split())


@pytest.mark.check
def test_shells_complete_verbs_sub_verbs_and_options(tmp_path: Path):
    assert completed("redraft", "su", folder=tmp_path) == {"submit", "subscribe", "subscriptions"}
    assert {"actors", "tree"} <= completed("redraft", "stats", "", folder=tmp_path)
    assert "--outcome" in completed("redraft", "list", "--out", folder=tmp_path)
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # else the shell that runs the tests is what counts
    assert "complete_bash" in begin("--show-completion", "bash", folder=tmp_path, **named).out
