"""The export of a run's record as JSON lines that anybody can check, without Redraft and in any language.

One line is one event, in order: `position` (its place in the log, if known), `run`, `version` (its place in the run,
from 1), `name`, and then, byte for byte, what the store holds: `hash`, `id`, `time` (UTC), `previous`, `actor`, `data`,
and `causation`, `correlation` and `trace` where there are any. `data` is the event itself.

How to check it. Take a line as the bytes it is, and cut it behind the first `"hash":"…64 hex digits…",`. With a `{` in
front, the rest is what was hashed, after three lines that say where it belongs:

    SHA-256( run "\\n" version "\\n" name "\\n" "{" rest-of-the-line )

in UTF-8, the version in decimal digits, the rest without the line end. It must give the `hash` of the line; `previous`
must be the hash of the line before, 64 zeros in the first; versions must count 1, 2, 3, … In Python:

    for number, line in enumerate(file, start=1):               # a file opened in binary mode
        event, rest = json.loads(line), line.rstrip(b"\\n").split(b'"hash":"', 1)[1][66:]
        place = f"{event['run']}\\n{event['version']}\\n{event['name']}\\n{{".encode()
        assert hashlib.sha256(place + rest).hexdigest() == event["hash"]
        assert event["previous"] == previous and event["version"] == number
        previous = event["hash"]

The chain shows that no event was changed, put in, or taken out before the last; compare the last hash with one that
was noted elsewhere to know that nothing was cut off or written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

import msgspec

from redraft.events.errors import Tampered

Raw: TypeAlias = tuple[int, str, bytes, int]
"""An event as it is kept: version in its run, stored name, stored bytes, position in the log (0: not known)."""


class RawEvents(Protocol):
    """What gives the stored bytes of a run."""

    async def raw(self, run: str) -> Sequence[Raw]:
        """The events of a run as they are kept, in order; raises NoSuchRun."""
        ...


async def exported(store: RawEvents, run: str) -> Iterator[str]:
    """The lines of a run that a store holds; raises NoSuchRun, and Tampered on what cannot be a stored event."""
    return export_jsonl(run, await store.raw(run))


def export_jsonl(run: str, events: Iterable[Raw]) -> Iterator[str]:
    """One line, with its line end, for each event; raises Tampered on bytes that cannot be a stored event."""
    for version, name, state, position in events:
        try:
            kept = state.decode()
        except UnicodeDecodeError as error:
            raise _tampered(run, version, name) from error
        if not kept.startswith('{"hash":"') or not kept.endswith("}") or "\n" in kept:
            raise _tampered(run, version, name)
        found = f'"position":{position},' if position else ""
        place = f'"run":{_quoted(run)},"version":{version},"name":{_quoted(name)}'
        yield f"{{{found}{place},{kept[1:]}\n"


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _tampered(run: str, version: int, name: str) -> Tampered:
    return Tampered(f"event {version} of run {run} ({name}) is not what was recorded: its bytes are no stored event")
