"""A deployment that encrypts: it works, its files hold no text, and a run is erased while its processes run."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.app.deployments import Deployment, deployment

from redraft.events.backends import open_store
from redraft.events.bus.port import INBOX, BusMessage
from redraft.events.encryption.keyring import Encryption
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import EraseRun
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import RunErased, RunStarted
from redraft.events.messages.envelope import Origin
from redraft.events.messages.plan import Plan, Step
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.store.event_store import Append, NewEvent

pytestmark = pytest.mark.check

SAID = "a text that only Ada knows"


def submitted(there: Deployment, text: str) -> str:
    """A run that has ended with this text, and more."""
    said = there.call("submit", "loop.py:loop", text, "--wait", "--json")
    assert said.code == 0, said.err
    result = json.loads(said.out)
    assert result["draft"]["text"].startswith(text)
    return str(result["run"])


def test_a_run_is_erased_while_a_coordinator_runs(tmp_path: Path, each_store: str) -> None:
    with deployment(tmp_path, each_store) as there:
        assert there.call("key", "encryption", "key").code == 0
        (tmp_path / "redraft.toml").write_text('encrypt_new_runs = true\nencrypt_key_file = "key"\n')
        assert there.call("trust").code == 0
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


def test_a_coordinator_without_the_key_starts_nothing_where_others_encrypt(tmp_path: Path, each_store: str) -> None:
    with deployment(tmp_path, each_store) as there:
        coordinator = there.start("plain", "coordinator")
        there.serving("plain")
        asyncio.run(begun_sealed(there.store))
        assert there.call("submit", "loop.py:loop", SAID).code == 0
        there.until("it is dead-lettered", lambda: len(there.json("dead-letters", "list")) == 1)
        [dead_letter] = there.json("dead-letters", "list")
        assert "the store encrypts its runs, and no key is given here, so no run can begin" in dead_letter["reason"]
        coordinator.terminate()
        assert coordinator.wait(30) == 0
        assert there.json("list") == []
        for arguments in (("coordinator",), ("run", "loop.py:loop", "a text")):
            said = there.call(*arguments)
            assert said.code == 2
            assert said.err.rstrip().splitlines()[-1].startswith("redraft: the store encrypts its runs, and no key")


def test_a_coordinator_without_the_key_that_relays_ends_for_one_with_the_key_to_take_over(
    tmp_path: Path, each_store: str
) -> None:
    """It could not send the requests of an encrypted run, and while it relays nobody else does."""
    with deployment(tmp_path, each_store) as there:
        assert there.call("key", "encryption", "key").code == 0
        plain = there.start("plain", "coordinator")
        there.until("it relays", lambda: bool(there.said("plain", "relaying")))
        there.settings = {"REDRAFT_ENCRYPT_KEY_FILE": "key", "REDRAFT_ENCRYPT_NEW_RUNS": "1"}
        there.start("sealing", "coordinator")
        there.start("worker", "worker", "loop.py")
        there.until("the other stands by", lambda: bool(there.said("sealing", "standing by")))
        asyncio.run(begin_sealed(there.store, b64decode((tmp_path / "key").read_bytes())))
        assert plain.wait(60) == 2
        assert "REDRAFT_ENCRYPT_KEY" in there.log("plain").read_text()
        assert submitted(there, SAID)


def test_an_erasure_is_recorded_of_a_run_alone_whose_key_is_gone(tmp_path: Path, each_store: str) -> None:
    with deployment(tmp_path, each_store) as there:
        assert there.call("key", "encryption", "key").code == 0
        there.settings = {"REDRAFT_ENCRYPT_KEY_FILE": "key"}
        there.start("coordinator", "coordinator")
        there.start("worker", "worker", "loop.py")
        plain = submitted(there, SAID)
        there.settings = {**there.settings, "REDRAFT_ENCRYPT_NEW_RUNS": "1"}
        there.start("second", "coordinator")
        there.serving("second")
        there.processes[0].terminate()
        assert there.processes[0].wait(60) == 0
        sealed = submitted(there, SAID)
        asyncio.run(say_erased(there, plain, sealed))
        there.until("both are dead-lettered", lambda: len(there.json("dead-letters", "list")) == 2)
        reasons = {each["run"]: each["reason"] for each in there.json("dead-letters", "list")}
        assert reasons[plain] == f"run {plain} is not erased: it was recorded in the clear, and its texts can be read"
        assert reasons[sealed].startswith(f"run {sealed} is not erased: its key is there; `redraft erase` deletes it")
        for run in (plain, sealed):
            assert SAID in there.call("show", run, "--text").out
            assert "erased" not in there.call("audit", run).out
        asyncio.run(lose_key(there.store, sealed))
        said = there.call("erase", sealed, "--by", "grace")
        assert (said.code, said.err) == (0, "")
        assert "grace had the texts of the run erased" in there.call("audit", sealed).out


async def say_erased(there: Deployment, *runs: str) -> None:
    """Somebody says over the bus that these runs were erased."""
    async with RabbitBus(there.bus, prefix=there.prefix) as bus:
        for run in runs:
            name, body = encode_message(EraseRun(run, "ann", "asked to"))
            await bus.publish(INBOX, [BusMessage(name, body, Origin(f"erase-{run}", "ann"), run)])


async def lose_key(url: str, run: str) -> None:
    """As `redraft erase` that is killed before it tells the coordinator."""
    async with open_store(url) as store:
        assert await store.destroy_key(run)


async def begin_sealed(url: str, master: bytes) -> None:
    """The store has a run that is sealed."""
    begun = RunStarted(Plan("p", (Step("generator", "write", "write"),)), Brief(SAID), datetime.now(UTC))
    async with open_store(url, encryption=Encryption(master)) as store:
        await store.append("sealed", 0, [NewEvent(Origin("x", "test"), datetime.now(UTC), begun)])


async def begun_sealed(url: str) -> None:
    """The store has a run that is sealed, of which nothing is recorded yet."""
    async with open_store(url, encryption=Encryption(bytes(32))) as store:
        await store.encode(Append("sealed", 0, (NewEvent(Origin("x", "test"), datetime.now(UTC), RunErased("", "")),)))
