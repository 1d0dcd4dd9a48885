"""A deployment that encrypts: it works, its files hold no text, and a run is erased while its processes run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.app.deployments import Deployment, deployment

SAID = "a text that only Ada knows"


def submitted(there: Deployment, text: str) -> str:
    """A run that has ended with this text, and more."""
    said = there.call("submit", "loop.py:loop", text, "--wait", "--json")
    assert said.code == 0, said.err
    result = json.loads(said.out)
    assert result["draft"]["text"].startswith(text)
    return str(result["run"])


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_run_is_erased_while_a_coordinator_runs(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    store = request.getfixturevalue("postgres_url") if kind == "postgresql" else ""
    with deployment(tmp_path, store) as there:
        assert there.call("key", "encryption", "key").code == 0
        (tmp_path / "redraft.toml").write_text('encrypt = true\nencrypt_key_file = "key"\n')
        there.start("coordinator", "coordinator")
        there.start("worker", "worker", "loop.py")
        first = submitted(there, SAID)
        assert SAID in there.call("show", first, "--text").out
        there.call("export", "-o", "archive")
        said = there.call("import", "archive")
        assert (said.code, "a coordinator works on it" in said.err) == (5, True)
        said = there.call("erase", first, "--by", "grace")
        assert (said.code, said.err) == (0, "")
        assert there.call("show", first, "--text").out == "[erased]"
        assert "grace had the texts of the run erased" in there.call("audit", first).out
        assert there.call("audit", "--all", "--verify").code == 0
        second = submitted(there, "something else")
        assert "something else" in there.call("show", second, "--text").out
        assert [process.poll() for process in there.processes] == [None, None]
        for name in ("coordinator", "worker"):
            assert SAID not in there.log(name).read_text()
    left = [path for path in tmp_path.glob("*.db*") if SAID.encode() in path.read_bytes()]
    assert not left, "the store and its read models hold the text"
