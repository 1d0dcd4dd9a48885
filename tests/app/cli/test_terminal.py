"""What a draft, a brief, a name or a message may do to a terminal: nothing."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from tests.app.cli_calls import call, environment, shown_on
from tests.forked import fork
from tests.processes import Said

EVIL = (
    "\x1b]0;owned\x07\x1b[2J\x9b31m\u061c\u202e\ufff9\ufffa\ufffb\u2066\u200b\ufeff\U000e0041\U000e0100"
    "\u00ad\u034f\u115f\u2800\u3164\uffa0\r\x7f"
)
SHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u202a-\u202e\u2066\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
    "\u00ad\u034f\u115f\u2800\u3164\uffa0]"
)
OURS = re.compile("\x1b\\[[0-9;?]*[A-Za-z]|\r\n|\r")
"""What rich writes to a terminal, colours and movements of its status line, and the terminal's own line ends."""

WORKFLOW = f"""
from redraft.actors import Critique, Revision, Workflow, critic, generator, refiner, score

EVIL = {EVIL!r}

@generator
def write(brief): return "A draft" + EVIL + ".\\n"

@critic
def judge(draft):
    done = "better" in draft.text
    return Critique(float(done), errors=("wrong" + EVIL,), suggestions=("mend" + EVIL,), strengths=("good" + EVIL,))

@refiner
def improve(draft): return Revision("A better draft" + EVIL + ".\\n", changes=("changed" + EVIL,))

@generator
def fail(brief): raise ValueError("failed" + EVIL)

evil = Workflow("evil").start_with(write).repeat_until(score >= 1, max_iterations=3, body=[judge, improve])
failing = Workflow("failing").start_with(fail)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of two runs, of which nothing is harmless."""
    folder = tmp_path_factory.mktemp("evil")
    (folder / "evil.py").write_text(WORKFLOW)
    (folder / "brief.md").write_text(f"A brief{EVIL}.\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{folder / 'store.db'}")
        assert call("run", "evil.py:failing", "brief.md").code == 1
        assert call("run", "evil.py:evil", "brief.md").code == 0
    return folder


def on_a_terminal(*arguments: str, folder: Path) -> Said:
    """The command line with its three streams on a terminal, and all that this was given."""
    ours, theirs = os.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    made = environment(folder, {"TERM": "xterm", "COLUMNS": "300"})
    with fork("redraft", *arguments, folder=folder, environment=made, **streams) as process:
        os.close(theirs)
        shown = shown_on(ours)
        return Said(process.wait(60), shown, "")


@pytest.mark.parametrize(
    "words",
    [
        "run evil.py:evil brief.md",
        "run evil.py:evil brief.md --json",
        "run -w stdout.yaml --actors evil.py brief.md",
        "run --resume last",
        "list",
        "list --json",
        "show last",
        "show last --text",
        "show last --json",
        "show last --step write",
        "show last --step write --json",
        "diff last 1 2",
        "diff last 1 2 --json",
        "events",
        "events --json",
        "audit last",
        "audit last --json",
        "whatif last --until score>=0.5",
        "stats",
        "plan evil.py:evil",
        "doctor",
        "projections query issues",
        f"show {EVIL}",
        f"run {EVIL}.py:evil brief.md",
        f"plan {EVIL}.yaml",
    ],
)
def test_no_text_steers_a_terminal(words: str, folder: Path) -> None:
    (folder / "stdout.yaml").write_text(
        "name: evil\nsteps:\n- generate: {actor: write}\n- critique: {actor: judge}\n- publish: {actor: stdout}\n"
    )
    said = on_a_terminal(*words.split(" "), folder=folder)
    assert "Traceback" not in said.out
    assert said.out.strip()
    left = OURS.sub("", said.out)
    assert "\x1b" not in left
    assert SHOWN.findall(left) == []
    assert "owned\x07" not in said.out
    assert "\x1b[2J" not in said.out


def test_json_on_a_terminal_says_the_same_as_in_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{folder / 'store.db'}")
    here = call("show", "last", "--json").out
    assert json.loads(on_a_terminal("show", "last", "--json", folder=folder).out) == json.loads(here)
    assert EVIL in call("show", "last", "--text").out, "byte for byte in a file"
