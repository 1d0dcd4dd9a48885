"""The memory that `redraft dead-letters` takes: each verb is a process, and the kernel reports its peak."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.events.dead_letter_bodies import came, park
from tests.events.rabbit_server import URL, new_prefix, rabbit
from tests.processes import plain

MB = 1_000_000
PEAK = """
import sys
from pathlib import Path
from redraft.app.cli import main
try:
    sys.exit(main())
finally:
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in each)
    Path("peak").write_text(line.split()[1])
"""
"""Says in the file `peak` how many kibibytes the process had at most."""


class Told(NamedTuple):
    """What a verb printed, and the peak memory of its process in bytes."""

    out: str
    peak: int


async def dead_letters(folder: Path, prefix: str, *words: str) -> Told:
    settings = plain(REDRAFT_BUS=URL, REDRAFT_BROKER_PREFIX=prefix)
    asked = sys.executable, "-c", PEAK, "dead-letters", *words
    out = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*asked, cwd=folder, env=settings, stdout=out, stderr=out)
    said, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    return Told(said.decode(), int((folder / "peak").read_text()) * 1024)


async def peaks(folder: Path, number: int, size: int) -> dict[str, int]:
    """The peak of each verb with so many dead letters of so many bytes, and of the list of none."""
    prefix = new_prefix()
    async with rabbit(prefix=prefix) as bus:
        await bus.prepare()
        nothing = await dead_letters(folder, prefix, "list", "--json")
        assert json.loads(nothing.out) == []
        ids = await park(prefix, number, size)
        listed = await dead_letters(folder, prefix, "list", "--json")
        assert [(each["id"], each["bytes"]) for each in json.loads(listed.out)] == [(each, size) for each in ids]
        shown = await dead_letters(folder, prefix, "show", ids[3])
        assert len(shown.out) > size
        one = await dead_letters(folder, prefix, "retry", ids[3], "--json")
        assert json.loads(one.out) == {"retried": [ids[3]]}
        rest = [each for each in ids if each != ids[3]]
        retried = await dead_letters(folder, prefix, "retry", "--all", "--json")
        assert json.loads(retried.out) == {"retried": rest}
        assert await came(prefix, number) == [ids[3], *rest]
        ids = await park(prefix, number, size)
        discarded = await dead_letters(folder, prefix, "discard", "--all", "--json")
        assert json.loads(discarded.out) == {"discarded": ids}
        assert await bus.dead_letters(lambda each: each.id) == []
    told = {"nothing": nothing, "list": listed, "show": shown, "retry": one, "retry all": retried}
    return {name: each.peak for name, each in {**told, "discard all": discarded}.items()}


@pytest.mark.check
async def test_what_is_dead_lettered_is_not_held_in_memory(tmp_path: Path) -> None:
    found = await peaks(tmp_path, 40, 2 * MB)
    assert max(found.values()) - found["nothing"] < 40 * MB, found


@pytest.mark.check
async def test_80_dead_lettered_messages_of_8_mib_are_looked_at_below_150_mb(tmp_path: Path) -> None:
    found = await peaks(tmp_path, 80, 8 * 1024 * 1024)
    assert max(found.values()) < 150 * MB, found
