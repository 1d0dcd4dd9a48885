"""Each verb once as users start it: in a Python that has imported nothing. Other tests fork; see `tests.forked`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.app.cli_calls import begin, call

ENDED = "has ended and takes no more messages"
NO_BROKER = "local: is inside one process"
VERBS = {
    "run": (0, "run essay.md --quiet", "This is the tide."),
    "files": (2, "files", "name files, or those that git knows"),
    "list": (0, "list", "prose"),
    "show": (0, "show last", "19 events"),
    "diff": (0, "diff last 1 2", "[-teh-]"),
    "events": (0, "events --json", '"name":"run.ended'),
    "audit": (0, "audit last --verify", "19 events verified"),
    "export": (0, "export --out runs.archive", "19 events of 1 run exported"),
    "import": (2, "import none.archive --store sqlite:///other.db", "archive none.archive does not exist"),
    "erase": (2, "erase last", "it cannot be erased"),
    "rebuild": (0, "rebuild", "rebuilt runs"),
    "doctor": (0, "doctor", "ok   python"),
    "whatif": (0, "whatif last --until approved", "under the policy: until approved"),
    "fork": (0, "fork last --at 2 --quiet", "This is the tide."),
    "plan": (0, "plan prose", "name: prose"),
    "simulate": (0, "simulate prose --runs 20", "prose: 20 rehearsed runs"),
    "submit": (2, "submit prose essay.md", NO_BROKER),
    "guide": (2, "guide last more", ENDED),
    "limits": (2, "limits last --max-iterations 3", ENDED),
    "pause": (2, "pause last", ENDED),
    "resume": (2, "resume last", ENDED),
    "cancel": (2, "cancel last", ENDED),
    "quarantine": (4, "quarantine none --reason wrong", "no run 'none'"),
    "approve": (2, "approve last", ENDED),
    "reject": (2, "reject last", ENDED),
    "edit": (2, "edit last essay.md", ENDED),
    "up": (2, "up prose", "needs a broker"),
    "coordinator": (2, "coordinator", NO_BROKER),
    "worker": (2, "worker source", NO_BROKER),
    "serve": (2, "serve prose --host 0.0.0.0", "is reached from other machines"),
    "token": (0, "token list", "there are no tokens"),
    "mcp": (2, "mcp --http --host 192.0.2.1", "is reached from other machines"),
    "subscribe": (2, "subscribe handlers.py:note --name n --store memory:", "no subscription can have a name"),
    "webhook": (2, "webhook http://127.0.0.1:1/ --name w", "is not a public address"),
    "trust": (2, "trust", "redraft.toml: there is no such file"),
    "contract": (0, "contract", "asyncapi: 3.0.0"),
    "key": (0, "key signing mine.pem", "mine.pem: signs checkpoints"),
    "stats": (0, "stats issues last", "raised in"),
    "projections": (0, "projections list", "up to date"),
    "lessons": (2, "lessons strike none", "no lesson"),
    "dead-letters": (2, "dead-letters list", NO_BROKER),
    "subscriptions": (0, "subscriptions list", "there are no subscriptions with a name"),
}
"""The exit code, the command, and a part of what it says of a store with one run."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("verbs")
    (made / "essay.md").write_text("This is teh tide. It comes in.\n")
    (made / "handlers.py").write_text("def note(event): pass\n")
    code, _, says = VERBS["run"]
    said = begin("run", "essay.md", "--quiet", folder=made)
    assert (said.code, says in said.out) == (code, True), said
    return made


@pytest.mark.check
@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "run"])
def test_a_verb_is_a_process_that_does_its_work(folder: Path, verb: str) -> None:
    code, command, says = VERBS[verb]
    said = begin(*command.split(), folder=folder)
    assert said.code == code, said.err
    assert says in said.out + said.err
    assert code == 0 or said.err.count("\n") == 1


def test_every_verb_is_here() -> None:
    groups = call("--help").out.partition("Options:\n")[2].partition("\n\n")[2]
    assert set(re.findall(r"^  ([\w-]+) ", groups, re.MULTILINE)) == set(VERBS)
