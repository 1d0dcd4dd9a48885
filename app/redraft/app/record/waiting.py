"""Whether a run can go on by what is recorded of it."""

from __future__ import annotations

from redraft.actors.deciding.state import RunState


def awaits_nothing(state: RunState) -> bool:
    """Returns whether a run has begun and not ended, and nothing will ever bring it further.

    Coordinators record all that follows from a message together, up to the next request, question or pause. So only the
    record of a run of which later events were taken out, or are not there yet, ends like this.
    """
    return state.status == "running" and not (state.open or state.approval or state.paused)
