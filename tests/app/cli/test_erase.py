"""`redraft erase` and `redraft key`: a run's texts are gone from all that reads and from the files; its chain holds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psycopg
import pytest
from tests.app.cli.test_reading import LOUD
from tests.app.cli_calls import call, one_line
from tests.app.itemized import write_book

SAID = "Only Ada knows of the tunnel"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.check)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a workflow, a key, and a store that is encrypted with it."""
    monkeypatch.chdir(tmp_path)
    Path("loud.py").write_text(LOUD)
    assert call("key", "encryption", "key").code == 0
    url = "sqlite:///store.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    monkeypatch.setenv("REDRAFT_STORE", url)
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", "key")
    return tmp_path


def run(text: str) -> str:
    said = call("run", "loud.py:loud", f"{text}.", "--json", "--quiet")
    assert said.code == 0, said.err
    return str(json.loads(said.out)["run"])


def test_an_erased_run_is_told_without_its_texts_and_verified(place: Path):
    other, erased = run("Something else"), run(SAID)
    assert SAID in call("show", erased, "--text").out
    assert not [path for path in place.glob("store.db*") if SAID.encode() in path.read_bytes()]
    for name in ("issues", "publications", "critiques"):
        assert call("projections", "show", name).code == 0
    said = call("erase", erased, "--by", "grace", "--reason", "Ada asked for it")
    assert said.code == 0, said.err
    assert said.out.startswith(f"run {erased}: its texts can no longer be read; erased by grace at ")
    again = json.loads(call("erase", erased, "--by", "somebody", "--json").out)
    assert (again["by"], again["reason"]) == ("grace", "Ada asked for it")
    for verb in (("show",), ("show", "--text"), ("audit",), ("audit", "--verify"), ("audit", "--export", "a.html")):
        told = call(verb[0], erased, *verb[1:])
        assert (told.code, told.err) == (0, "")
        assert SAID not in told.out
    assert "grace had the texts of the run erased (Ada asked for it)" in call("audit", erased).out
    assert "brief whose text is erased" in call("audit", erased).out
    assert SAID not in call("events", "--json").out
    assert "was erased" in one_line(call("diff", erased, "1", "2"))
    assert one_line(call("fork", erased, "--at", "9")) == f"it cannot be forked: run {erased} was erased"
    assert call("audit", "--all", "--verify").code == 0
    listed = {each["run"]: each["brief"] for each in json.loads(call("list", "--json").out)}
    assert listed == {other: "Something else.", erased: "[erased]"}
    assert "they are equal to the rows" in call("rebuild").out
    shown = "".join(call("projections", "show", name).out for name in ("runs", "steps", "issues", "publications"))
    assert SAID not in shown
    assert not [path for path in place.iterdir() if path.is_file() and SAID.encode() in path.read_bytes()]
    assert "Something else" in call("show", other, "--text").out


EXHAUSTED = """
from redraft.actors import Critique, Workflow, critic, generator, refiner

@generator
def write(brief):
    return brief.text

@critic
def judge(draft):
    return Critique(0.5, suggestions=("say more",))

@refiner
def improve(draft):
    return draft.text + " more"

loop = Workflow("loop").start_with(write).repeat_until("score >= 0.9", max_iterations=2, body=[judge, improve])
"""


def test_a_run_whose_last_draft_was_looked_at_once_more_is_erased(place: Path):
    Path("exhausted.py").write_text(EXHAUSTED)
    said = call("run", "exhausted.py:loop", SAID, "--json", "--quiet")
    assert said.code == 3, said.err
    erased = str(json.loads(said.out)["run"])
    assert "closing" in call("events", "--json", "--run", erased).out
    said = call("erase", erased, "--by", "grace")
    assert said.code == 0, said.err
    assert said.out.startswith(f"run {erased}: its texts can no longer be read; erased by grace at ")
    assert "set aside" not in call("show", erased).out
    assert call("audit", erased, "--verify").code == 0
    assert call("audit", "--all", "--verify").code == 0


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_key_whose_table_is_in_use_is_deleted_and_what_is_left_is_told(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("redraft.events.postgres.connection.LOCK_SECONDS", 0.2)
    erased = run(SAID)
    with psycopg.connect(os.environ["REDRAFT_STORE"]) as beside:
        beside.execute("LOCK TABLE redraft_keys IN ACCESS SHARE MODE")
        said = call("erase", erased, "--by", "grace")
    assert said.code == 0, said.err
    assert "its key is deleted, but the key's bytes may still lie in the database's files (" in one_line(said)
    assert one_line(said).endswith(f"finish with: redraft erase {erased}")
    assert "grace had the texts of the run erased" in call("audit", erased).out
    again = call("erase", erased)
    assert (again.code, again.err) == (0, "")


MINE = """
from redraft.projections import Projection, Put, Table

def words(event):
    draft = getattr(event.data, "draft", None)
    if hasattr(draft, "text"):
        yield Put("words", {"position": event.position, "text": draft.text})

mine = Projection("words", 1, (Table("words", {"position": "INTEGER NOT NULL", "text": "TEXT NOT NULL"}),), words)
"""


def test_a_projection_of_ones_own_that_may_hold_texts_is_named(place: Path):
    erased = run(SAID)
    Path("mine.py").write_text(MINE)
    assert SAID in call("projections", "show", "mine.py:mine").out
    said = call("erase", erased)
    assert said.code == 0
    assert "the projection 'words' may still hold parts of its texts" in one_line(said)
    assert call("rebuild", "mine.py:mine").code == 0
    assert SAID not in call("projections", "show", "mine.py:mine").out
    again = call("erase", erased)
    assert (again.code, again.err) == (0, "")
    assert not [path for path in place.glob("store*") if SAID.encode() in path.read_bytes()]


def test_forks_that_hold_the_same_texts_are_named(place: Path):
    parent = run(SAID)
    said = call("fork", parent, "--at", "9", "--workflow", "loud.py:loud", "--json", "--quiet")
    assert said.code == 0, said.err
    fork = json.loads(said.out)["run"]
    assert not [path for path in place.glob("store.db*") if SAID.encode() in path.read_bytes()]
    told = call("erase", parent)
    assert (told.code, one_line(told).endswith(f"redraft erase {fork}")) == (0, True)
    assert SAID in call("show", fork, "--text").out
    assert call("erase", fork).err == ""
    assert call("erase", parent).err == ""
    assert call("show", fork, "--text").out == "[erased]"
    assert call("audit", "--all", "--verify").code == 0


def test_without_the_key_nothing_is_read_and_the_remedy_is_told(place: Path, monkeypatch: pytest.MonkeyPatch):
    sealed = run(SAID)
    monkeypatch.delenv("REDRAFT_ENCRYPT_NEW_RUNS")
    monkeypatch.delenv("REDRAFT_ENCRYPT_KEY_FILE")
    Path("store.views.db").unlink(missing_ok=True)
    said = call("show", sealed)
    assert said.code in (2, 4)  # 4: the read models know of the run, or they do not
    assert call("key", "encryption", "other").code == 0
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", "other")
    said = call("audit", sealed)
    assert said.code == 2
    assert "give the one that it was recorded with" in one_line(said)


def test_a_run_that_cannot_be_erased_says_what_to_do(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "0")
    plain = run("In the clear")
    said = call("erase", plain)
    assert said.code == 2
    assert "was recorded in the clear" in one_line(said)
    assert f"redraft export --without {plain}" in said.err
    assert call("erase", "nobody").code == 4
    assert "In the clear" in call("show", plain, "--text").out


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"REDRAFT_ENCRYPT_NEW_RUNS": "1"}, "REDRAFT_ENCRYPT_NEW_RUNS is set without a key"),
        ({"REDRAFT_ENCRYPT_KEY": "c2hvcnQ="}, "REDRAFT_ENCRYPT_KEY: an encryption key is 32 bytes in base64"),
        ({"REDRAFT_ENCRYPT_KEY": "not base64!"}, "REDRAFT_ENCRYPT_KEY: an encryption key is 32 bytes in base64"),
        ({"REDRAFT_ENCRYPT_KEY_FILE": "nowhere"}, "REDRAFT_ENCRYPT_KEY_FILE nowhere cannot be read"),
        ({"REDRAFT_ENCRYPT_KEY_FILE": "a", "REDRAFT_ENCRYPT_KEY": "b"}, "are both set"),
    ],
)
def test_a_key_that_cannot_be_used_is_told_and_never_shown(
    settings: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    result = call("run", "The sea is calm.", "--store", "sqlite:///store.db")
    assert result.code == 2
    assert said in one_line(result)
    assert "c2hvcnQ" not in result.err
    assert not Path("store.db").exists()


def test_keys_are_readable_by_their_owner_alone_and_never_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert call("key", "signing", "a.pem").code == 0
    assert call("key", "encryption", "k").code == 0
    assert [Path(name).stat().st_mode & 0o777 for name in ("a.pem", "k", "a.pem.pub")] == [0o600, 0o600, 0o644]
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    Path("b.pem.pub").touch()
    for arguments in (("signing", "a.pem"), ("encryption", "k"), ("signing", "b.pem"), ("encryption", "no/k")):
        assert call("key", *arguments).code == 2
    assert {path: path.read_bytes() for path in before} == before
    assert not Path("b.pem").exists()


def test_a_run_whose_items_had_runs_of_their_own_is_erased_with_them(place: Path):
    write_book(place)
    assert call("run", "book.py:book", "Tides", "--quiet").code == 0
    said = call("erase", "last", "--by", "grace")
    assert said.code == 0, said.err
    runs = json.loads(call("list", "--items", "--json").out)
    assert len(runs) > 3
    assert {each["brief"] for each in runs} == {"[erased]"}
    assert {each["status"] for each in runs} == {"ended"}
    assert call("erase", "last").code == 0
    assert call("audit", "--all", "--verify").code == 0
