"""Events that no coordinator records, as a stranger may write them: their hashes are right, and their times are not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from redraft.app.record.copying.archive import ArchiveWriter
from redraft.events.backends import open_store
from redraft.events.messages.codec import GENESIS, HASHED, _fingerprint
from redraft.events.store.raw_rows import RawRow


async def first_events(url: str, number: int) -> list[RawRow]:
    """The first events of a store."""
    async with open_store(url) as store:
        return list(await store.copying().after(0, number))


def retold(events: Sequence[RawRow], run: str, time: str = "", **data: str) -> list[RawRow]:
    """The same events of another run, all at this time, with these values where their data has such fields."""
    made: list[RawRow] = []
    previous = GENESIS
    for version, each in enumerate(events, 1):
        told = json.loads(each.state)
        del told["hash"]
        told |= {"id": f"{run}-{version}.0", "previous": previous, "correlation": run}
        told["time"] = time or told["time"]
        told["data"] |= {name: value for name, value in data.items() if name in told["data"]}
        state = json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()
        previous = _fingerprint(run, version, each.name, state)
        made.append(RawRow(0, run, version, each.name, b'%b%b",%b' % (HASHED, previous.encode(), state[1:])))
    return made


def rehashed(events: Sequence[RawRow], at: int, **other: str) -> list[RawRow]:
    """The same events of one run, of which the one at this index says other things, with hashes that fit."""
    made: list[RawRow] = []
    previous = GENESIS
    for index, each in enumerate(events):
        told = json.loads(each.state) | {"previous": previous} | (other if index == at else {})
        del told["hash"]
        state = json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()
        previous = _fingerprint(each.run, each.version, each.name, state)
        made.append(RawRow(0, each.run, each.version, each.name, b'%b%b",%b' % (HASHED, previous.encode(), state[1:])))
    return made


async def put_rows(url: str, rows: Sequence[RawRow]) -> None:
    """Puts rows into a store, past the program, as someone does who may write to its table."""
    async with open_store(url) as store:
        copying = store.copying()
        await copying.note_imported(sorted({each.run for each in rows}))
        await copying.put(list(rows))


def write_archive(path: Path, rows: Sequence[RawRow]) -> None:
    """Writes an archive of these rows."""
    with path.open("wb") as file:
        writer = ArchiveWriter(file, datetime.now(UTC))
        writer.add([*rows])
        writer.finish(len(rows), len({each.run for each in rows}))
