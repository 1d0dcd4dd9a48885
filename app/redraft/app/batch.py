"""Many briefs through one workflow, so many at a time: which they are, and how each ends.

Each brief is a run whose key is made from the workflow and the brief, so the same batch again goes on where it was:
runs that have ended give their results again, those that were interrupted go on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from redraft.app.compose import House
from redraft.app.result import Result
from redraft.events.content import MAX_DRAFT_BYTES, Brief, checked
from redraft.events.errors import ContentError, InputError
from redraft.events.plan import Plan
from redraft.events.tags import checked_tags

CONCURRENCY: Final = 16
"""How many runs go on at once, unless told otherwise."""

MAX_BYTES: Final = 512 * 1024 * 1024
"""The size of a file of briefs above which it is refused."""

_FORM: Final = 'write a text in quotes, or an object: {"text": "…", "id": "…", "tags": ["…"]}'


class Item(msgspec.Struct, frozen=True):
    """A brief of a batch: its `line` in the file (from 1), and its `id`, the line's number unless the file names one.

    `seed` tells its key from those of others: the id that the file names, or which of several equal texts it is.
    """

    line: int
    id: str
    brief: Brief
    tags: tuple[str, ...] = ()
    seed: str = ""


class Ended(msgspec.Struct, frozen=True):
    """How the run of a brief ended."""

    line: int
    id: str
    result: Result


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    id: str = ""
    media_type: str = "text/plain"
    source: str = ""
    tags: tuple[str, ...] = ()


def read_batch(path: Path, limit: int = MAX_DRAFT_BYTES, tags: tuple[str, ...] = ()) -> tuple[Item, ...]:
    """The briefs of a JSON Lines file, each a text or an object. `limit` is the largest in bytes; all get the `tags`.

    Raises InputError naming the line and the remedy.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: more than {MAX_BYTES:,} bytes; split it")
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"--batch {path}: {error.strerror}; name a file with a brief on each line") from None
    items = tuple(_item(path, number, line, limit, tags) for number, line in enumerate(lines, 1) if line.strip())
    if not items:
        raise InputError(f"--batch {path}: there is no brief in it; {_FORM}")
    seen: dict[str, int] = {}
    for item in items:
        if seen.setdefault(item.id, item.line) != item.line:
            raise InputError(f"{path}:{item.line}: the id {item.id!r} is that of line {seen[item.id]}; name another")
    return _seeded(items)


def _seeded(items: Sequence[Item]) -> tuple[Item, ...]:
    """The items with their seeds, which stay the same when lines are put between them."""
    times: Counter[str] = Counter()
    seeded = []
    for item in items:
        times[item.brief.text] += 1
        number = f"#{times[item.brief.text]}"
        seeded.append(msgspec.structs.replace(item, seed=number if item.id == str(item.line) else item.id))
    return tuple(seeded)


def _item(path: Path, number: int, line: bytes, limit: int, tags: tuple[str, ...]) -> Item:
    try:
        said = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"), type=str | _Written)
        given = _Written(said) if isinstance(said, str) else said
        checked(given.text, "brief", limit)
        own = checked_tags((*tags, *given.tags))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{path}:{number}: {error}; {_FORM}") from None
    except (ContentError, InputError) as error:
        raise InputError(f"{path}:{number}: {error}") from None
    brief = Brief(given.text, given.media_type, given.source)
    return Item(number, given.id or str(number), brief, own)


def key_of(plan: Plan, item: Item, prefix: str = "") -> str:
    """The key of a brief's run: the same for the same workflow, text and seed."""
    written = msgspec.json.encode((plan, item.seed, item.brief.text))
    return f"{prefix or 'batch'}/{sha256(written).hexdigest()[:32]}"


async def run_batch(
    house: House,
    plan: Plan,
    items: Sequence[Item],
    keys: Sequence[str],
    concurrency: int,
    ended: Callable[[Ended], None],
) -> None:
    """Runs all briefs, `concurrency` (at least 1) of them at a time; `ended` is told of each as it ends."""
    waiting = iter(zip(items, keys, strict=True))

    async def work() -> None:
        for item, key in waiting:
            run = await house.client.submit(plan, item.brief, key=key, tags=item.tags, by="redraft run --batch")
            ended(Ended(item.line, item.id, await house.client.wait(run)))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(items))):
            group.create_task(work())
