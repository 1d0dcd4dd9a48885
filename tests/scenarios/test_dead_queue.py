"""A quorum queue that ended, while its broker goes on: seen by the campaign after a full disk, when all runs waited."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.app.cli_calls import start
from tests.app.wiring.test_deployment import quiet_log
from tests.events.rabbit_node import RabbitNode, server_script

from redraft.app.cli.doctor.system_checks import Check, broker_checks
from redraft.app.settings.settings import read_settings
from redraft.app.wiring.coordinating import coordinate

WITHIN = 90.0

PLAN = """
name: tides
steps:
  - generate: {actor: source}
  - critique: {actor: prose}
  - publish: {actor: stdout}
"""


@pytest.mark.check
async def test_doctor_names_the_partitions_that_nothing_reads_and_who_submits_to_one_is_told(tmp_path: Path) -> None:
    node = RabbitNode(tmp_path, server_script())
    await node.restart()
    store = f"sqlite:///{tmp_path / 'store.db'}"
    settings = read_settings(store=store, bus=node.url, broker_prefix="x", inbox_partitions=3)

    async def until(level: str, text: str) -> None:
        """Returns once the last line on a queue says this: while a share changes hands, another does."""
        said: list[Check] = []
        while not said or (said[-1].level, text in said[-1].message) != (level, True):
            said = [each for each in await broker_checks(settings, ()) if each.name == "queue"]

    serving = asyncio.create_task(coordinate(settings, lambda: None, quiet_log()))
    try:
        async with asyncio.timeout(WITHIN):
            await until("ok", "x.inbox: 1 consumer")
            await asyncio.to_thread(node.end_queue, "x.inbox.1")
            await until("warn", "x.inbox.1: nothing reads them, though coordinators run; if that lasts, RabbitMQ")
            assert await asyncio.to_thread(node.dead_queues) == ["x.inbox.1"]
            for other in ("x.inbox.0", "x.inbox.2"):
                await asyncio.to_thread(node.end_queue, other)
            told = await asyncio.to_thread(_first_word, tmp_path, node.url)
            assert told == "redraft: the broker has confirmed nothing for 10 s; it is tried again: see redraft doctor\n"
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await asyncio.to_thread(node.close)


def _first_word(folder: Path, bus: str) -> str:
    """Returns the first line of a `redraft submit` that is not about workers, of which there are none; ends it then."""
    (folder / "plan.yaml").write_text(PLAN)
    settings = {"REDRAFT_BUS": bus, "REDRAFT_BROKER_PREFIX": "x", "REDRAFT_INBOX_PARTITIONS": "3"}
    with start("submit", "plan.yaml", "--text", "Tides", folder=folder, **settings) as submitting:
        try:
            assert submitting.stderr is not None
            return next(line for line in submitting.stderr if "no worker serves" not in line)
        finally:
            submitting.kill()
