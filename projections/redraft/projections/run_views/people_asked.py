"""Sentences about an approval: who has approved the draft so far, and for whom it still waits."""

from __future__ import annotations

from collections.abc import Sequence

from redraft.events.messages.domain_events import ApprovalRequested
from redraft.projections.display import NAME_LENGTH, plain


def waiting_text(asked: ApprovalRequested, approved: Sequence[str] = ()) -> str:
    """Returns who is still to decide on a draft after these people approved it: `draft 3 waits for ann, ben to ...`."""
    draft, due = f"draft {asked.draft.version}", f"to approve it by {asked.due:%Y-%m-%d %H:%M} UTC"
    so_far = f"was approved by {_listed(approved)}, and " if approved else ""
    return plain(f"{draft} {so_far}waits for {_those_left(asked, approved)} {due}")


def _those_left(asked: ApprovalRequested, approved: Sequence[str]) -> str:
    left = [name for name in asked.approvers if name not in approved]
    missing = asked.quorum - len(approved)
    if not asked.approvers:
        return "anybody" if not approved else "somebody else" if missing == 1 else f"{missing} others"
    several = f"{missing} of " if approved and missing < len(left) else ""
    return f"{several}{_listed(left)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(plain(name, NAME_LENGTH) for name in names)
