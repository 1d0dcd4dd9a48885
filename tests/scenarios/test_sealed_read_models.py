"""Encrypted runs: no word of them lies in the clear, in any file or table, before and after they are erased."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psycopg
import pytest
from tests.app.cli.test_erase import MINE
from tests.app.cli_calls import call, document, one_line, said

WORDS = ("tunnelbrief", "tunneldraft", "tunnelerror", "tunnelwish", "tunnelchange", "tunnelfault", "tunnelfile")
WORKFLOW = """
from redraft.actors import Critique, Revision, Workflow, critic, generator, publisher, refiner, score, step
from redraft.events.messages.plan import Retry

tries = []

@generator
def write(brief):
    tries.append(1)
    if len(tries) == 1:
        raise ValueError("tunnelfault")
    return "tunneldraft"

@critic
def judge(draft):
    done = "better" in draft.text
    if done: return Critique(1)
    return Critique(0, errors=("tunnelerror", "another tunnelerror"), suggestions=("tunnelwish",))

@refiner
def improve(draft): return Revision("a better tunneldraft", changes=("tunnelchange",))

@publisher
def save(draft): return "tunnelfile"

quiet = (
    Workflow("quiet").start_with(step(write, retry=Retry(2, 0.01)))
    .repeat_until(score >= 1, max_iterations=3, body=[judge, improve]).finally_(save)
)
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.check)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store that encrypts, the working folder being one with a workflow."""
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "store"
    store.mkdir()
    Path("quiet.py").write_text(WORKFLOW)
    assert call("key", "encryption", "key").code == 0
    url = f"sqlite:///{store / 'runs.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    monkeypatch.setenv("REDRAFT_STORE", str(url))
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", "key")
    return str(url)


def raw(url: str) -> bytes:
    """Every byte of the store and its read models: of the files, or of the files of a schema's tables and indexes."""
    if url.startswith("sqlite"):
        return b"".join(path.read_bytes() for path in sorted(Path("store").iterdir()) if path.is_file())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        files = connection.execute(
            "SELECT pg_relation_filepath(oid), reltoastrelid FROM pg_class "
            "WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'i')"
        ).fetchall()
        paths = [path for path, _ in files]
        toasts = [toast for _, toast in files if toast]
        found = connection.execute("SELECT pg_relation_filepath(t) FROM unnest(%s::oid[]::regclass[]) AS t", (toasts,))
        paths += [path for (path,) in found.fetchall()]
        return b"".join(
            bytes(row[0])
            for path in paths
            for row in connection.execute("SELECT pg_read_binary_file(%s, 0, 100000000, true)", (path,)).fetchall()
            if row[0] is not None
        )


def found_in(url: str) -> list[str]:
    content = raw(url).lower()
    assert len(content) > 10_000
    return [word for word in WORDS if word.encode() in content]


def run() -> str:
    done = call("run", "quiet.py:quiet", "A tunnelbrief.", "--json", "--quiet")
    assert done.code == 0, done.err
    return str(json.loads(done.out)["run"])


def look() -> None:
    """Brings every read model that ships up to date."""
    for name in ("runs", "steps", "actors", "choices", "critiques", "issues", "publications", "scores", "tree"):
        said("projections", "show", name)


def test_no_word_of_an_encrypted_run_lies_in_the_clear(place: str) -> None:
    name = run()
    look()
    assert found_in(place) == []
    said("rebuild")
    assert found_in(place) == []
    assert call("erase", name).err == ""
    look()
    assert found_in(place) == []


def test_the_search_finds_what_is_in_the_clear(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "0")
    run()
    look()
    assert found_in(place) == list(WORDS)


def test_who_has_the_key_is_told_all_the_same(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = run()
    [line] = document("list")
    assert (line["brief"], line["draft"]["sha256"]) == (
        "A tunnelbrief.",
        document("run", "--resume", name, "--quiet")["draft"]["sha256"],
    )
    assert "[encrypted]" not in line["reason"]
    [published] = document("stats", "publications")
    assert (published["location"], published["sha256"]) == ("tunnelfile", line["draft"]["sha256"])
    assert sorted(each["text"] for each in document("stats", "issues", name)) == [
        "another tunnelerror",
        "tunnelerror",
        "tunnelwish",
    ]
    assert "tunnelbrief" in said("list")
    monkeypatch.delenv("REDRAFT_ENCRYPT_NEW_RUNS")
    monkeypatch.delenv("REDRAFT_ENCRYPT_KEY_FILE")
    assert "is encrypted; give the key" in one_line(call("list"))


def test_erasing_reaches_what_a_projection_of_ones_own_has_deleted(place: str) -> None:
    name = run()
    Path("mine.py").write_text(MINE)
    assert "tunneldraft" in said("projections", "show", "mine.py:mine")
    assert "tunneldraft" in found_in(place)
    assert "bring it up to date, or drop it" in call("erase", name).err
    said("rebuild", "mine.py:mine")
    assert call("erase", name).err == ""
    assert found_in(place) == []


def test_files_of_store_and_read_models_are_their_owners_alone(place: str) -> None:
    before = os.umask(0o022)
    try:
        run()
        said("subscriptions", "list")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in Path("store").iterdir()}
    assert set(modes.values()) <= {0o600}, modes
