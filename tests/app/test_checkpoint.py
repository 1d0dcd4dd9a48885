"""Signed checkpoints: that no end was cut off, no run taken out, and nothing before changed, on every store."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
from base64 import b64decode
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from tests.app.cli_calls import Said, call, one_line
from tests.app.test_cli_reading import LOUD
from tests.appending import append_to
from tests.events.test_verification import PostgresTampering, SqliteTampering, Tampering

from redraft.app.signing import read_private
from redraft.app.signing import signed as sign
from redraft.events.content import Brief
from redraft.events.domain_events import RunStarted
from redraft.events.envelope import Origin
from redraft.events.plan import Plan
from redraft.events.sqlite_digest import FileDigest, digest_of
from redraft.events.sqlite_file import connect
from redraft.events.sqlite_seal import break_seal
from redraft.events.store import NewEvent, open_store

SIGN = ("audit", "--all", "--checkpoint", "now.json", "--key", "a.pem")
COMPARE = ("audit", "--all", "--verify", "--against", "now.json", "--public-key", "a.pem.pub")


@pytest.fixture(params=["sqlite", "postgres"])
def tampering(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tampering:
    """A store of two runs, and a checkpoint of it in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("loud.py").write_text(LOUD)
    on_file = request.param == "sqlite"
    url = "sqlite:///store.db" if on_file else request.getfixturevalue("postgres_url")
    monkeypatch.setenv("REDRAFT_STORE", url)
    assert call("key", "signing", "a.pem").code == 0
    run("One")
    run("Two")
    said = call(*SIGN)
    assert said.code == 0, said.err
    return SqliteTampering(tmp_path / "store.db") if on_file else PostgresTampering(url)


def run(text: str) -> None:
    assert call("run", "loud.py:loud", f"{text}.", "--quiet").code == 0


def cover(tampering: Tampering) -> None:
    """Takes away what SQLite leaves behind where a row was deleted, which the file itself shows."""
    if isinstance(tampering, SqliteTampering):
        with closing(sqlite3.connect("store.db")) as connection:
            connection.execute("VACUUM")


def head() -> int:
    return int(json.loads(call("audit", "--all", "--verify", "--json").out)["position"])


def faults() -> list[str]:
    said = call(*COMPARE, "--json")
    found = [fault["told"] for fault in json.loads(said.out)["faults"]]
    assert said.code == bool(found)
    return found


def test_a_log_holds_what_was_signed_and_what_came_since(tampering: Tampering):
    events = head()
    said = call(*COMPARE)
    assert said.code == 0, said.err
    assert f"all {events} events of the checkpoint of " in said.out
    assert "0 events came since\n" in said.out
    run("Three")
    assert f"{head() - events} events came since" in call(*COMPARE).out
    assert call(*SIGN).code == 0
    assert faults() == []


def unseal() -> None:
    """Makes the file what it is without a seal, which would show another byte by itself: too large for one, say."""
    with closing(connect(Path("store.db"))) as connection:
        break_seal(connection)


def flip(place: int, path: str = "store.db") -> None:
    whole = bytearray(Path(path).read_bytes())
    whole[place] ^= 1
    Path(path).write_bytes(whole)


def test_a_changed_byte_that_the_file_alone_does_not_show_is_a_fault(signed: dict[str, Any]):
    assert "the file is byte for byte the one" in call(*COMPARE).out
    assert json.loads(call(*COMPARE, "--json").out)["same_file"] is True
    flip(43)  # how often the schema was changed, which can be any number
    assert call("audit", "--all", "--verify").code == 0
    said = call(*COMPARE)
    assert said.code == 1
    assert "the file is not byte for byte the one that was signed" in one_line(said)
    assert "bytes that hold nothing were changed" in said.err
    assert json.loads(call(*COMPARE, "--json").out)["same_file"] is False
    run("Two")
    said = call(*COMPARE, "--json")
    assert (said.code, json.loads(said.out)["same_file"]) == (0, None)


def test_a_file_is_sealed_when_a_run_has_ended_and_signing_changes_no_byte(signed: dict[str, Any]):
    run("Two")
    before = Path("store.db").read_bytes()
    assert call(*SIGN).code == 0
    assert "the file is byte for byte the one" in call(*COMPARE).out
    assert Path("store.db").read_bytes() == before
    flip(43)
    said = call("audit", "--all", "--verify")
    assert said.code == 1
    assert "its bytes are not those that it had when it was last closed" in one_line(said)


def test_a_file_that_was_vacuumed_is_no_fault(signed: dict[str, Any]):
    with closing(sqlite3.connect("store.db")) as connection:
        connection.execute("VACUUM")
    said = call(*COMPARE)
    assert (said.code, said.err) == (0, "")
    assert "not byte for byte the one that was signed" in said.out


async def on_the_side(*arguments: str) -> dict[str, Any]:
    """What a command tells while this process has the store open."""
    said = await asyncio.to_thread(call, *arguments, "--json")
    return {**json.loads(said.out), "code": said.code}


def statement(text: str) -> None:
    with closing(connect(Path("store.db"))) as connection:
        connection.execute(text).fetchall()


@pytest.mark.parametrize("log_ahead", ["FULL", "TRUNCATE"])
async def test_a_file_that_was_sealed_after_it_was_signed_is_the_same(signed: dict[str, Any], log_ahead: str):
    """Whoever has it open may have written to it, and seals it when that is closed; with a write-ahead log or none."""
    async with open_store("sqlite:///store.db") as store:
        event = RunStarted(Plan("p", ()), Brief("b"), datetime(2026, 3, 1, tzinfo=UTC))
        await append_to(store, "a", 0, [NewEvent(Origin("a", "test"), datetime(2026, 3, 1, tzinfo=UTC), event)])
        statement(f"PRAGMA wal_checkpoint({log_ahead})")
        assert (await on_the_side(*SIGN))["code"] == 0
        assert (await on_the_side(*COMPARE))["same_file"] is True
    found = await on_the_side(*COMPARE)
    assert (found["code"], found["faults"], found["same_file"]) == (0, [], True)
    unseal()
    assert (await on_the_side(*COMPARE))["same_file"] is True
    flip(43)
    found = await on_the_side(*COMPARE)
    assert (found["code"], found["same_file"]) == (1, False)
    assert "bytes that hold nothing were changed" in found["faults"][0]["told"]


def test_nothing_is_said_of_a_file_that_went_on(signed: dict[str, Any]):
    path, end = Path("store.db"), head()
    assert digest_of(path, end) == msgspec.convert(signed["checkpoint"]["file"], FileDigest)
    assert digest_of(path, end - 1) is None
    assert digest_of(path.with_name("nothing.db"), 0) is None
    assert not path.with_name("nothing.db").exists()
    assert digest_of(Path("now.json"), 0) is None
    assert digest_of(None, 0) is None


def test_a_changed_key_of_an_encrypted_run_is_a_fault(signed: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    assert call("key", "encryption", "k").code == 0
    monkeypatch.setenv("REDRAFT_ENCRYPT", "1")
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", "k")
    run("Secret")
    unseal()
    assert call(*SIGN).code == 0
    assert call(*COMPARE).code == 0
    with closing(sqlite3.connect("store.db")) as connection:
        ((wrapped,),) = connection.execute("SELECT wrapped FROM redraft_keys WHERE length(wrapped) > 6").fetchall()
    flip(Path("store.db").read_bytes().index(wrapped) + 3)
    assert call("audit", "--all", "--verify").code == 0
    said = call(*COMPARE)
    assert said.code == 1
    assert "the keys of encrypted runs are not those that were signed" in one_line(said)


def test_a_checkpoint_of_an_earlier_version_still_verifies(signed: dict[str, Any]):
    held = signed["checkpoint"]
    del held["keys"], held["all_keys"], held["file"]["changes"], held["file"]["but_seal"]
    raw = json.dumps(held, separators=(",", ":"))
    key = read_private(Path("a.pem").read_text(), "a.pem")
    signature = sign(key, b"redraft checkpoint\n" + raw.encode())
    Path("now.json").write_text(f'{{"checkpoint":{raw},"key":"{signed["key"]}","signature":"{signature}"}}')
    said = call(*COMPARE)
    assert said.code == 0
    assert "the file is byte for byte the one" in said.out
    flip(43)
    said = call(*COMPARE)
    assert said.code == 0
    assert "not byte for byte the one that was signed" in said.out


def test_an_end_that_was_cut_off_is_noticed(tampering: Tampering):
    tampering.take_out(head())
    cover(tampering)
    assert call("audit", "--all", "--verify").code == 0, "the log itself cannot show it"
    (fault,) = faults()
    assert "its end was cut off" in fault


def test_an_end_that_was_cut_off_and_grew_again_is_noticed(tampering: Tampering):
    last = head()
    half = last // 2
    tampering.take_out(*range(half + 1, last + 1))
    run("Three")
    run("Four")
    assert call("audit", "--all", "--verify").code == 0, "the log itself cannot show it"
    (fault,) = faults()
    assert f"what is recorded at positions {half + 1} to {half + 1} is not what was signed" in fault


def test_a_run_that_was_taken_out_and_the_rest_moved_up_is_noticed(tampering: Tampering):
    last = head()
    half = last // 2
    tampering.take_out(*range(1, half + 1))
    column = "rowid" if isinstance(tampering, SqliteTampering) else "notification_id"
    for position in range(half + 1, last + 1):
        tampering.set(position, column, position - half)
    cover(tampering)
    assert call("audit", "--all", "--verify").code == 0, "the log itself cannot show it"
    assert any("is not what was signed" in fault for fault in faults())


def test_a_log_with_a_fault_is_not_signed(tampering: Tampering):
    tampering.set(3, "topic", "x")
    before = Path("now.json").read_bytes()
    said = call(*SIGN)
    assert said.code == 1
    assert "event 3 of run" in said.err
    assert Path("now.json").read_bytes() == before


@pytest.fixture
def signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    Path("loud.py").write_text(LOUD)
    monkeypatch.setenv("REDRAFT_STORE", "sqlite:///store.db")
    assert call("key", "signing", "a.pem").code == 0
    assert call("key", "signing", "b.pem").code == 0
    run("One")
    unseal()
    assert call(*SIGN).code == 0
    found: dict[str, Any] = json.loads(Path("now.json").read_bytes())
    return found


@pytest.mark.parametrize("field", ["events", "position", "digest", "time", "runs", "marks"])
def test_a_changed_checkpoint_is_noticed(field: str, signed: dict[str, Any]):
    held = signed["checkpoint"]
    held[field] = {"digest": "0" * 64, "time": "2020-01-01T00:00:00Z", "marks": []}.get(field, 7)
    Path("now.json").write_text(json.dumps(signed, separators=(",", ":")))
    said = call(*COMPARE)
    assert (said.code, said.out) == (1, "")
    assert "was changed: its signature does not fit" in one_line(said)


def test_the_signature_can_be_checked_without_redraft(signed: dict[str, Any]):
    raw = Path("now.json").read_bytes()
    inner = raw.split(b'{"checkpoint":', 1)[1].rsplit(b',"key":', 1)[0]
    key: Any = load_pem_public_key(Path("a.pem.pub").read_bytes())
    key.verify(b64decode(signed["signature"]), b"redraft checkpoint\n" + inner)
    digest = bytes(32)
    for line in call("events", "--json").out.splitlines():
        digest = sha256(digest + json.loads(line)["hash"].encode()).digest()
    assert signed["checkpoint"]["digest"] == digest.hex()


def test_openssl_reads_the_keys(signed: dict[str, Any]):
    done = subprocess.run(["openssl", "pkey", "-in", "a.pem", "-pubout"], capture_output=True, check=True)
    assert done.stdout == Path("a.pem.pub").read_bytes()


def test_keys_can_come_from_the_environment(signed: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REDRAFT_SIGNING_KEY", Path("a.pem").read_text())
    monkeypatch.setenv("REDRAFT_PUBLIC_KEY", Path("a.pem.pub").read_text())
    assert call("audit", "--all", "--checkpoint", "b.json").code == 0
    assert call("audit", "--all", "--against", "b.json").code == 0


def refused(*arguments: str) -> Said:
    said = call("audit", "--all", *arguments)
    assert (said.code, said.out) == (2, "")
    return said


def test_what_cannot_be_used_is_told(signed: dict[str, Any]):
    Path("junk").write_text("no key")
    for arguments, told in (
        (("--against", "now.json", "--public-key", "b.pem.pub"), "was signed with another key"),
        (("--against", "now.json", "--public-key", "a.pem"), "is no public Ed25519 key"),
        (("--against", "now.json"), "--against needs the key"),
        (("--against", "junk", "--public-key", "a.pem.pub"), "junk is no checkpoint"),
        (("--against", "nowhere", "--public-key", "a.pem.pub"), "nowhere cannot be read"),
        (("--checkpoint", "x.json"), "--checkpoint needs a key"),
        (("--checkpoint", "x.json", "--key", "junk"), "is no private Ed25519 key"),
        (("--checkpoint", "x.json", "--key", "nowhere"), "--key nowhere cannot be read"),
        (("--checkpoint", "no/x.json", "--key", "a.pem"), "there is no folder no"),
        (("--verify", "--key", "a.pem"), "--key signs a checkpoint"),
        (("--verify", "--public-key", "a.pem.pub"), "--public-key verifies a checkpoint"),
    ):
        assert told in one_line(refused(*arguments))
    assert not Path("x.json").exists()
    assert "are for the whole log" in one_line(call("audit", "last", "--against", "now.json"))
