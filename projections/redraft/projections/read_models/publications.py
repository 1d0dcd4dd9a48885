"""Publications: which draft of which run was published, by which step, where and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from redraft.events.messages.domain_events import DraftPublished, RunErased
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.redaction import ERASED
from redraft.projections.display import plain
from redraft.projections.engine.projection import (
    Change,
    Projection,
    Put,
    Row,
    SetAll,
    Table,
    seconds,
    unchanged,
    without_texts,
)
from redraft.projections.engine.storage import row_decoder
from redraft.projections.engine.views import Views
from redraft.projections.read_models.runs import select_runs

TABLE: Final = Table(
    "publications",
    {
        "run": "TEXT NOT NULL",
        "version": "INTEGER NOT NULL",
        "path": "TEXT NOT NULL",
        "draft": "INTEGER NOT NULL",
        "sha256": "TEXT NOT NULL",
        "location": "TEXT NOT NULL",
        "note": "TEXT NOT NULL",
        "time": "REAL NOT NULL",
        "position": "INTEGER NOT NULL",
    },
    key=2,
    indexes={"publications_time": "(time)"},
)


class Publication(msgspec.Struct, frozen=True):
    """A published draft: its version and SHA-256, its location, a note, and the UTC time.

    `path` is the publishing step. `location` and `note` are one line each, without control characters.
    """

    run: str
    path: str
    draft: int
    sha256: str
    location: str
    note: str
    time: datetime


def project_publication(recorded: Recorded) -> Sequence[Change]:
    """Returns the row of a publication."""
    match recorded.data:
        case DraftPublished() if recorded.repeats:
            return ()  # a fork repeats what its parent published
        case DraftPublished(path=path, draft=draft, receipt=receipt):
            row: Row = {
                "run": recorded.run,
                "version": recorded.version,
                "path": path,
                "draft": draft.version,
                "sha256": draft.sha256,
                "location": plain(receipt.location),
                "note": plain(receipt.note),
                "time": seconds(recorded.time),
                "position": recorded.position,
            }
            return (Put("publications", row),)
        case RunErased():
            gone: Row = {"location": ERASED, "note": ERASED, "sha256": ERASED}
            return (SetAll("publications", recorded.run, gone),)
        case _:
            return ()


PUBLICATIONS: Final = Projection(
    "publications", 2, (TABLE,), without_texts(project_publication), unchanged, only=(DraftPublished, RunErased)
)
"""The projection that keeps publications."""


async def publications(
    views: Views, run: str = "", since: datetime | None = None, limit: int = 50, workflow: str = ""
) -> list[Publication]:
    """Returns at most `limit` publications since a time, of a run, a workflow or all, latest first.

    `workflow` needs `RUNS` in the same storage.
    """
    columns = ", ".join(Publication.__struct_fields__)
    where, given = select_runs("time", since, workflow, run)
    sql = f"SELECT {columns} FROM publications WHERE {where} ORDER BY time DESC, position DESC LIMIT :limit"  # noqa: S608
    return await views.read(row_decoder(Publication, "time"), sql, {**given, "limit": limit})
