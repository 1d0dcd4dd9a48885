"""What was published: which draft of which run, by whom, where to and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from redraft.events.domain_events import DraftPublished, RunErased
from redraft.events.envelope import Recorded
from redraft.events.texts import ERASED
from redraft.projections.lines import line_of
from redraft.projections.of_workflow import of_workflow
from redraft.projections.plain import plain
from redraft.projections.projection import Change, Projection, Put, Row, SetAll, Table, Value, seconds, unchanged
from redraft.projections.views import Views
from redraft.projections.without_texts import without_texts

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
    """A draft of a run was published: its version and SHA-256, where it now is, a note, and when (UTC).

    `path` is the step that did it. `location` and `note` are one line each, without control characters.
    """

    run: str
    path: str
    draft: int
    sha256: str
    location: str
    note: str
    time: datetime


def project_publication(recorded: Recorded) -> Sequence[Change]:
    """The row of a publication."""
    match recorded.data:
        case DraftPublished() if recorded.repeats:
            return ()  # a fork tells of what its parent published
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


PUBLICATIONS: Final = Projection("publications", 2, (TABLE,), without_texts(project_publication), unchanged)
"""The projection that keeps them."""


async def publications(
    views: Views, run: str = "", since: datetime | None = None, limit: int = 50, workflow: str = ""
) -> list[Publication]:
    """At most `limit` publications, of a run, of those of a workflow or of all, since then, the latest first.

    `workflow` needs `RUNS` in the same place.
    """
    sql = (
        "SELECT run, path, draft, sha256, location, note, time FROM publications "  # noqa: S608 - made of what stands there
        f"WHERE time >= :since AND (:run = '' OR run = :run) {of_workflow(workflow)} "
        "ORDER BY time DESC, position DESC LIMIT :limit"
    )
    given: dict[str, Value] = {"since": seconds(since) if since else 0.0, "run": run, "limit": limit}
    given["workflow"] = workflow
    return await views.read(line_of(Publication, "time"), sql, given)
