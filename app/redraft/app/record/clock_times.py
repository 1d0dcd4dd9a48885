"""Times that some clock may show: those of all events that a coordinator records, but not of all that can be written.

A run with others, which a stranger's archive or row may hold, concerns itself alone: read models keep the nearest time
that can be shown. But its steps fall due at once or never, so an import refuses it, and `redraft doctor` names it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from redraft.events.messages.envelope import Recorded
from redraft.projections.engine.projection import seconds
from redraft.projections.engine.views import Views

_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_END: Final = datetime(9000, 1, 1, tzinfo=UTC)
CLOCKS_SHOW: Final = "from 1970 to 8999, and with a zone"


def is_shown_by_clocks(time: datetime) -> bool:
    return time.tzinfo is not None and _FIRST <= time < _END


def find_strange_time(event: Recorded) -> str:
    """Returns the name and value of a time of an event that no clock shows: `due 9999-12-31T…`; empty for none."""
    data = {name: getattr(event.data, name) for name in event.data.__struct_fields__}
    for name, value in {"time": event.time, **data}.items():
        if isinstance(value, datetime) and not is_shown_by_clocks(value):
            return f"{name} {value.isoformat()}"
    return ""


async def runs_of_strange_times(views: Views) -> list[str]:
    """Returns the runs that go on and have a time that no clock shows, or a step with one, in their order."""
    outside = "({0} < :first OR {0} >= :end)".format
    sql = f"""
        SELECT run FROM runs WHERE status NOT IN ('ended', 'quarantined') AND (
            {outside("started")} OR {outside("updated")}
            OR run IN (SELECT run FROM steps WHERE {outside("due")} OR {outside("coalesce(retry_at, due)")})
        ) ORDER BY began
    """  # noqa: S608 - made of what stands above
    found = await views.query(sql, {"first": seconds(_FIRST), "end": seconds(_END)})
    return [str(run) for (run,) in found]
