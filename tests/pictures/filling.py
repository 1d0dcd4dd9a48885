"""Fills a store with what an office has in it after two weeks: runs of every outcome, state and language."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final
from unittest.mock import patch
from uuid import UUID

import msgspec
from msgspec.structs import replace
from tests.app.cli_calls import document, environment, said, until
from tests.app.dashboard.asking import begin, ended, send
from tests.app.server.served import Served, served
from tests.forked import fork
from tests.pictures import office

from redraft.actors import Workflow
from redraft.app import open_local, read_settings
from redraft.events.backends import open_store
from redraft.events.messages.domain_events import ApprovalRequested, RunStarted
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.store.append import Append, NewEvent
from redraft.events.store.event_store import EventStore

DAYS: Final = 14
BRIEFS: Final = (
    "Explain to twelve-year-olds why there are two tides a day, and why the second is a surprise to nearly everybody",
    "A press release about the new pump",
    "潮の満ち引きはなぜ起こるのか、子ども向けに説明してください",
    "Warum es zwei Fluten gibt: für die Donaudampfschifffahrtsgesellschaftskapitänswitwenrentenauszahlungsstelle",
    "لماذا يحدث المد والجزر مرتين في اليوم؟",
    "Release notes for version 4.2, with everything that breaks named first",
    "README: getting started in five minutes",
)
TAGS: Final = (("spring", "website"), ("press",), ("lang:ja",), ("lang:de", "website"), (), ("release/4.2",), ("docs",))
REFUSED: Final = (
    "the contract of 2024 is not in this folder: /srv/legal/contracts/2024/framework-agreement-with-the-printers.pdf",
    "no licence for the dictionary of legal German",
    (
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe4 in position 2117: invalid continuation byte "
        "(while reading the comments of the second reader, which somebody has saved with another encoding)"
    ),
)
REFUSES: Final = "def refuse(event):\n    raise ConnectionError('mail.example.org refuses the connection')\n"


class Office(msgspec.Struct):
    """A server over the filled store; the runs that pictures are taken of, by what they show; links for people."""

    server: Served
    runs: dict[str, str]
    links: dict[str, str]


async def fill_past(store: str) -> None:
    """Records runs of two weeks: Redraft itself has recorded each kind, which is told again with other times."""
    random = Random(7)
    kinds = [await _record(each) for each in (office.essay, office.doubted, office.signed, office.broken)]
    async with open_store(store) as log:
        for day in range(DAYS, 0, -1):
            for number in range(random.randint(2, 6)):
                at = datetime.now(UTC) - timedelta(days=day, minutes=random.randint(0, 600))
                await _tell(log, random.choice(kinds), at, (day + number) % len(BRIEFS), random)


async def _record(workflow: Workflow) -> tuple[Recorded, ...]:
    async with open_local(read_settings(store="memory:"), workflow.actors.values()) as runtime:
        run = await runtime.client.submit(workflow.plan, BRIEFS[0])
        if workflow.name == "press-release":
            asked = await runtime.client.wait(run, until="approval.requested")
            assert isinstance(asked.data, ApprovalRequested)
            await runtime.client.approve(run, asked.data.draft, "It says what the pump does.", by="ann")
        await runtime.client.wait(run)
        return await runtime.client.history(run)


async def _tell(log: EventStore, events: Sequence[Recorded], at: datetime, brief: int, random: Random) -> None:
    run, later = f"01jk{UUID(int=random.getrandbits(128)).hex[:22]}", at - events[0].time

    def again(event: Recorded) -> NewEvent:
        data = event.data
        if isinstance(data, RunStarted):
            data = replace(data, tags=TAGS[brief], brief=replace(data.brief, text=BRIEFS[brief]))
        origin = Origin(f"{run}-{event.version}", event.actor, f"{run}-{event.version - 1}", run)
        return NewEvent(origin, event.time + later, data)

    await log.append_all([Append(run, 0, tuple(map(again, events)))])


@contextmanager
def opened(folder: Path) -> Iterator[Office]:
    """The office at work over the store of this folder, which holds its past, until the block ends."""
    shutil.copy(office.__file__, folder / "office.py")
    (folder / "refuse.py").write_text(REFUSES)
    said("key", "encryption", "texts.key")
    secret = {"REDRAFT_ENCRYPT_KEY_FILE": str(folder / "texts.key")}
    with patch.dict(os.environ, secret):
        runs = _encrypted()
        with served(folder, "office.py", "--elsewhere", "critic.legal", **secret) as server:
            runs |= _present(server, folder)
            yield Office(server, runs, dict(_links(server.url, runs)))


def _encrypted() -> dict[str, str]:
    """Records a run that is encrypted, and one that was erased."""
    with patch.dict(os.environ, REDRAFT_ENCRYPT_NEW_RUNS="1"):
        for brief in ("Salaries of the board", "A letter to Mrs. Tanaka"):
            said("run", "--text", brief, "-w", "office.py:essay", "-q")
    encrypted, erased = (each["run"] for each in document("list")[:2])
    said("erase", erased, "--by", "ann", "--reason", "Mrs. Tanaka asked for it")
    return {"encrypted": encrypted, "erased": erased}


def _present(server: Served, folder: Path) -> dict[str, str]:
    """Begins runs of all kinds, and leaves some at work."""
    runs = {name: begin(server, BRIEFS[at], name, tags=TAGS[at]) for at, name in enumerate(("essay", "press-release"))}
    runs["japanese"] = begin(server, BRIEFS[2], "essay", tags=["lang:ja"])
    runs |= {name: begin(server, BRIEFS[-1], name) for name in ("book", "handbook", "newsletter", "slogan")}
    for name in ("essay", "japanese", "book", "handbook", "newsletter", "slogan"):
        ended(server, runs[name])
    until(lambda: server.get(f"/runs/{runs['press-release']}")["step"] == "Sign-off")
    send(server, f"/runs/{runs['essay']}/fork", at="9")
    (folder / "hold").touch()
    for name, brief in (("running", BRIEFS[0]), ("paused", BRIEFS[3]), ("set aside", BRIEFS[4]), ("ended", BRIEFS[5])):
        runs[name] = begin(server, brief, "essay", tags=["today"])
    until(lambda: server.get(f"/runs/{runs['ended']}")["step"] != "")
    send(server, f"/runs/{runs['running']}/guide", advice="Name one coast that everybody knows.")
    send(server, f"/runs/{runs['paused']}/word/pause", reason="the facts are being checked")
    send(server, f"/runs/{runs['ended']}/word/cancel", reason="no longer needed")
    said("quarantine", runs["set aside"], "--reason", "its answers are those of another run", "--by", "ann")
    _refuse(server)
    _subscribe(folder)
    return runs


def _refuse(server: Served) -> None:
    """Has a worker by HTTP give requests up for good, so that there are dead letters."""
    for at, reason in enumerate(REFUSED):
        begin(server, BRIEFS[at + 1], "contract", tags=TAGS[at + 1])
        leased = server.client.post("/requests/lease", json={"actor": "critic.legal", "wait": 30})
        assert leased.status_code == 200, leased.text
        given = {"reason": reason, "requeue": False}
        assert server.client.post(f"/leases/{leased.json()['lease']}/release", json=given).status_code == 200
    until(lambda: len(server.get("/dead-letters")) == len(REFUSED))


def _links(url: str, runs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields links for people without an account: to read a run, and to decide on a draft."""
    given = ("--url", url, "--json")
    yield "link-share", json.loads(said("token", "share", runs["essay"], "--anonymous", *given))["link"]
    yield "link-decide", json.loads(said("token", "invite", runs["press-release"], "--for", "ann", *given))["link"]


def _subscribe(folder: Path) -> None:
    """Leaves a subscription with parked events."""
    command = ("subscribe", "refuse.py:refuse", "--name", "mailer", "--attempts", "1", "--type", "run.ended")
    process = fork("redraft", *command, folder=folder, environment=environment(folder, {}))
    try:
        until(lambda: any(each["parked"] for each in document("subscriptions", "list")))
    finally:
        process.terminate()
        process.wait(30)
