"""Signed checkpoints: that no end was cut off, no run taken out, and nothing before changed, on every store."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from base64 import b64decode
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from tests.app.cli.test_reading import LOUD
from tests.app.cli_calls import Said, call, one_line
from tests.events.store.test_verification import PostgresTampering, SqliteTampering, Tampering

from redraft.app.record.auditing.checkpoint import read_private
from redraft.app.record.auditing.checkpoint import sign as sign

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


def head() -> int:
    return int(json.loads(call("audit", "--all", "--verify", "--json").out)["position"])


def faults() -> list[str]:
    said = call(*COMPARE, "--json")
    found = [fault["message"] for fault in json.loads(said.out)["faults"]]
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


def test_a_changed_key_of_an_encrypted_run_is_a_fault(signed: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    assert call("key", "encryption", "k").code == 0
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", "k")
    run("Secret")
    assert call(*SIGN).code == 0
    assert call(*COMPARE).code == 0
    with closing(sqlite3.connect("store.db")) as connection:
        ((wrapped,),) = connection.execute("SELECT wrapped FROM redraft_keys WHERE run <> ''").fetchall()
    with closing(sqlite3.connect("store.db")) as connection:
        changed = bytes([wrapped[0] ^ 1]) + wrapped[1:]
        connection.execute("UPDATE redraft_keys SET wrapped = ? WHERE wrapped = ?", (changed, wrapped))
        connection.commit()
    monkeypatch.delenv("REDRAFT_ENCRYPT_NEW_RUNS")
    monkeypatch.delenv("REDRAFT_ENCRYPT_KEY_FILE")
    assert call("audit", "--all", "--verify").code == 0
    said = call(*COMPARE)
    assert said.code == 1
    assert "the keys of encrypted runs are not those that were signed" in one_line(said)


def signed_anew(signed: dict[str, Any], held: dict[str, Any]) -> None:
    """Writes this checkpoint, signed with the same key."""
    raw = json.dumps(held, separators=(",", ":"))
    key = read_private(Path("a.pem").read_text(), "a.pem")
    signature = sign(key, b"redraft checkpoint\n" + raw.encode())
    Path("now.json").write_text(f'{{"checkpoint":{raw},"key":"{signed["key"]}","signature":"{signature}"}}')


def test_a_checkpoint_of_an_earlier_version_still_verifies(signed: dict[str, Any]):
    """It had the digests of the file and of all keys too, and one before that had no digest of keys."""
    held = signed["checkpoint"]
    signed_anew(signed, held | {"file": {"size": 4096, "sha256": "0" * 64}, "all_keys": "0" * 64})
    assert (call(*COMPARE).code, faults()) == (0, [])
    del held["keys"]
    signed_anew(signed, held)
    assert (call(*COMPARE).code, faults()) == (0, [])


def test_a_checkpoint_of_a_later_version_is_refused(signed: dict[str, Any]):
    signed_anew(signed, signed["checkpoint"] | {"format": 2})
    said = call(*COMPARE)
    assert said.code == 2
    assert "is of a later version of Redraft" in one_line(said)


def test_an_end_that_was_cut_off_is_noticed(tampering: Tampering):
    tampering.take_out(head())
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
    Path("deep").write_text('{"x":' + "[" * 5_000)
    for arguments, told in (
        (("--against", "now.json", "--public-key", "b.pem.pub"), "was signed with another key"),
        (("--against", "now.json", "--public-key", "a.pem"), "is not a public Ed25519 key"),
        (("--against", "now.json"), "--against needs the public key"),
        (("--against", "junk", "--public-key", "a.pem.pub"), "junk is not a checkpoint"),
        (("--against", "deep", "--public-key", "a.pem.pub"), "deep is not a checkpoint"),
        (("--against", "nowhere", "--public-key", "a.pem.pub"), "nowhere cannot be read"),
        (("--checkpoint", "x.json"), "--checkpoint needs a key"),
        (("--checkpoint", "x.json", "--key", "junk"), "is not a private Ed25519 key"),
        (("--checkpoint", "x.json", "--key", "nowhere"), "--key nowhere cannot be read"),
        (("--checkpoint", "no/x.json", "--key", "a.pem"), "there is no folder no"),
        (("--verify", "--key", "a.pem"), "--key is for signing a checkpoint"),
        (("--verify", "--public-key", "a.pem.pub"), "--public-key is for verifying a checkpoint"),
    ):
        assert told in one_line(refused(*arguments))
    assert not Path("x.json").exists()
    assert "are for the whole log" in one_line(call("audit", "last", "--against", "now.json"))
