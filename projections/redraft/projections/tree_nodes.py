"""The trees of all runs, one row a node: loops, their passes, and the steps in them.

The rows of one run are what `tree` folds of its events. They hold no text, so nothing of an erased run is left in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from redraft.events.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    BudgetReached,
    ChoicesCredited,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    IterationStarted,
    LimitsChanged,
    LoopClosing,
    LoopEnded,
    Outcome,
    PanelClosed,
    RunCancelled,
    RunEnded,
    RunErased,
    RunGuided,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.envelope import Recorded
from redraft.events.plan import Role
from redraft.projections.branches import Status
from redraft.projections.lines import line_of
from redraft.projections.of_workflow import of_workflow
from redraft.projections.projection import (
    Change,
    Delete,
    Projection,
    Row,
    Set,
    SetAll,
    Table,
    Value,
    seconds,
    unchanged,
)
from redraft.projections.views import Views

TABLE: Final = Table(
    "tree_nodes",
    {
        "run": "TEXT NOT NULL",
        "path": "TEXT NOT NULL",
        "parent": "TEXT NOT NULL",
        "kind": "TEXT NOT NULL",
        "name": "TEXT NOT NULL",
        "iteration": "INTEGER",
        "role": "TEXT NOT NULL",
        "actor": "TEXT NOT NULL",
        "status": "TEXT NOT NULL",
        "attempts": "INTEGER NOT NULL",
        "score": "REAL",
        "draft": "INTEGER",
        "outcome": "TEXT NOT NULL",
        "started": "REAL NOT NULL",
        "ended": "REAL",
        "repeated": "INTEGER NOT NULL",
        "published": "INTEGER NOT NULL",
        "position": "INTEGER NOT NULL",
    },
    key=2,
)
"""`position` is that of the event by which a node came up; `repeated` is 1 where a fork repeats its parent's answer.

`published` is 1 for a parallel whose last word was a publication.
"""

Kind: TypeAlias = Literal["step", "approval", "parallel", "loop", "pass"]
LEAVES: Final = ("step", "approval")
UNANSWERED: Final = ("open", "waiting")
_DROPPED: Final[Row] = {"status": "dropped"}
_AWAITED: Final = {"status": UNANSWERED, "kind": LEAVES}
"""The steps that are waited for; by their status first, for most of a run's rows are of steps that are done."""
_PARALLELS: Final[Mapping[str, tuple[str | int | float, ...]]] = {"kind": ("parallel",), "status": ("open",)}
"""The parallels that the run did not go on from."""


class TreeNode(msgspec.Struct, frozen=True):
    """A node of a run's tree, named by its path; `parent` is empty at the top.

    `iteration` is the number (from 1) of a pass, None for a closing one. `role`, `actor` and `attempts` are a step's.
    `status`, `score` (0..1) and `draft` are as in `tree`; a loop, a pass or a panel is open until the run went on
    from it. `outcome` is a loop's, empty while it runs. Times are UTC. `repeated`: done in the run this is a fork of.
    """

    run: str
    path: str
    parent: str
    kind: Kind
    name: str
    iteration: int | None
    role: Role | Literal["approver", ""]
    actor: str
    status: Status
    attempts: int
    score: float | None
    draft: int | None
    outcome: Outcome | Literal[""]
    started: datetime
    ended: datetime | None
    repeated: bool


def project_node(recorded: Recorded) -> Sequence[Change]:
    """Returns what an event changes in its run's tree."""
    event, run = recorded.data, recorded.run
    match event:
        case RunStarted():
            return (Delete("tree_nodes", (run,)),)  # there are none: said, it need not be looked up
        case IterationStarted(path=path, iteration=iteration):
            return tuple(_begun(recorded, path, str(iteration), iteration))
        case LoopClosing(path=path):
            return tuple(_begun(recorded, path, "closing", None))
        case StepRequested():
            return tuple(_requested(recorded, event))
        case ApprovalRequested():
            return tuple(_asked(recorded, event))
        case DraftCritiqued() | VerdictLate():
            return (_done(recorded, event.path, event.draft.version, event.critique.score),)
        case DraftGenerated() | DraftRefined():
            return (_done(recorded, event.path, event.draft.version),)
        case DraftPublished():
            return _done(recorded, event.path, event.draft.version), _published(recorded, event.path, 1)
        case DraftApproved():
            return (_done(recorded, event.path, event.draft.version),) if event.granted else ()
        case DraftRejected() | ApprovalExpired():
            return (_done(recorded, event.path, event.draft.version),)
        case StepFailed():
            return _failed(recorded, event), _published(recorded, event.path, 0)
        case LoopEnded():
            return tuple(_ended(recorded, event))
        case RunEnded():
            return tuple(_run_over(recorded, event))
        case DraftEdited() | BudgetReached():
            return tuple(_left(recorded))
        case RunQuarantined():
            return tuple(_all_left(recorded))
        case ChoicesCredited():
            return ()
        case PanelClosed() | RunErased() | RunGuided() | LimitsChanged() | RunPaused() | RunResumed() | RunCancelled():
            return ()
        case _ as never:
            assert_never(never)


TREE: Final = Projection("tree", 2, (TABLE,), project_node, unchanged)
"""The projection that keeps them."""


async def tree_nodes(views: Views, run: str = "", since: datetime | None = None, workflow: str = "") -> list[TreeNode]:
    """The nodes of a run, of those of a workflow or of all, in the order in which they came up.

    `since` leaves out what began before. `workflow` needs `RUNS` in the same place.
    """
    columns = ", ".join(TreeNode.__struct_fields__)
    sql = (
        f"SELECT {columns} FROM tree_nodes WHERE started >= :since AND (:run = '' OR run = :run) "  # noqa: S608
        f"{of_workflow(workflow)} ORDER BY position, length(path)"
    )
    given: dict[str, Value] = {"since": seconds(since) if since else 0.0, "run": run, "workflow": workflow}
    return await views.read(line_of(TreeNode, "started", "ended"), sql, given)


def _node(recorded: Recorded, path: str, kind: Kind, **more: Value) -> Row:
    """A node as it comes up."""
    parent, _, name = path.rpartition("/")
    return {
        "run": recorded.run,
        "path": path,
        "parent": parent,
        "kind": kind,
        "name": name,
        "iteration": None,
        "role": "",
        "actor": "",
        "status": "open",
        "attempts": 0,
        "score": None,
        "draft": None,
        "outcome": "",
        "started": seconds(recorded.time),
        "ended": None,
        "repeated": int(bool(recorded.repeats)),
        "published": 0,
        "position": recorded.position,
        **more,
    }


def _begun(recorded: Recorded, loop: str, label: str, iteration: int | None) -> Iterator[Change]:
    """A pass, its loop if it is the first, and what was before it left."""
    run, path = recorded.run, f"{loop}[{label}]"
    yield from _go_on(recorded, path)
    yield _pass_done(recorded, loop)
    yield Set("tree_nodes", (run, loop), {}, new=_node(recorded, loop, "loop"))
    made = _node(recorded, path, "pass", parent=loop, iteration=iteration)
    yield Set("tree_nodes", (run, path), {}, new=made)


def _requested(recorded: Recorded, event: StepRequested) -> Iterator[Change]:
    run, path, time = recorded.run, event.path, seconds(recorded.time)
    parent = path.rpartition("/")[0]
    yield from _go_on(recorded, parent)
    if parent and not parent.endswith("]"):
        yield Set("tree_nodes", (run, parent), {}, new=_node(recorded, parent, "parallel"))
    yield Set("tree_nodes", (run, path), {"started": time}, where={"attempts": (event.attempt,)})
    asked: Row = {"status": "open", "repeated": int(bool(recorded.repeats))}
    new = _node(recorded, path, "step", role=event.role, actor=event.actor, attempts=event.attempt)
    yield Set("tree_nodes", (run, path), asked, most={"attempts": event.attempt}, new=new)


def _asked(recorded: Recorded, event: ApprovalRequested) -> Iterator[Change]:
    yield from _go_on(recorded, event.path.rpartition("/")[0])
    people = ", ".join(event.approvers) or "anybody"
    new = _node(recorded, event.path, "approval", role="approver", actor=people, attempts=1, draft=event.draft.version)
    again = {name: value for name, value in new.items() if name not in ("run", "path", "position")}
    yield Set("tree_nodes", (recorded.run, event.path), again, new=new)


def _done(recorded: Recorded, path: str, draft: int, score: float | None = None) -> Change:
    values: Row = {
        "status": "done",
        "score": score,
        "draft": draft,
        "ended": seconds(recorded.time),
        "repeated": int(bool(recorded.repeats)),
    }
    return Set("tree_nodes", (recorded.run, path), values)


def _failed(recorded: Recorded, event: StepFailed) -> Change:
    values: Row = {
        "status": "waiting" if event.retry_at else "failed",
        "ended": seconds(recorded.time),
        "repeated": int(bool(recorded.repeats)),
    }
    return Set("tree_nodes", (recorded.run, event.path), values)


def _ended(recorded: Recorded, event: LoopEnded) -> Iterator[Change]:
    yield from _go_on(recorded, event.path.rpartition("/")[0])
    yield _pass_done(recorded, event.path)
    values: Row = {
        "status": "done",
        "score": event.score,
        "draft": event.draft.version or None,
        "outcome": event.outcome,
        "ended": seconds(recorded.time),
        "repeated": int(bool(recorded.repeats)),
    }
    yield Set("tree_nodes", (recorded.run, event.path), values)


def _go_on(recorded: Recorded, within: str) -> Iterator[Change]:
    """The run went on to what lies in `within`: only steps side by side with it are still waited for."""
    run, time = recorded.run, seconds(recorded.time)
    yield SetAll("tree_nodes", run, _DROPPED, _AWAITED, {"parent": (within,)})
    done: Row = {"status": "done", "ended": time}
    yield SetAll("tree_nodes", run, done, {"kind": ("parallel",), "status": ("open",)}, {"path": (within,)})


def _left(recorded: Recorded) -> Iterator[Change]:
    """Nothing is waited for any more, neither by a parallel."""
    ended: Row = {**_DROPPED, "ended": seconds(recorded.time)}
    yield SetAll("tree_nodes", recorded.run, _DROPPED, _AWAITED)
    yield SetAll("tree_nodes", recorded.run, ended, _PARALLELS)


def _run_over(recorded: Recorded, event: RunEnded) -> Iterator[Change]:
    """A parallel that the run ends with is done, unless the run was broken off in it; what else is open is left."""
    run, time = recorded.run, seconds(recorded.time)
    broken_off = event.outcome in ("failed", "cancelled")
    published = (1,) if broken_off else (0, 1)
    yield SetAll("tree_nodes", run, {"status": "done", "ended": time}, {**_PARALLELS, "published": published})
    yield from _all_left(recorded)


def _all_left(recorded: Recorded) -> Iterator[Change]:
    """Nothing is waited for any more, and loops that have not ended are left too."""
    yield from _left(recorded)
    ended: Row = {**_DROPPED, "ended": seconds(recorded.time)}
    yield SetAll("tree_nodes", recorded.run, ended, {"status": ("open",)})


def _published(recorded: Recorded, path: str, whether: int) -> Change:
    """Returns the change that notes whether the last word in a parallel, if the step lies in one, was a publication."""
    key = (recorded.run, path.rpartition("/")[0])
    return Set("tree_nodes", key, {"published": whether}, where={"kind": ("parallel",)})


def _pass_done(recorded: Recorded, loop: str) -> Change:
    done: Row = {"status": "done", "ended": seconds(recorded.time)}
    return SetAll("tree_nodes", recorded.run, done, {"kind": ("pass",), "parent": (loop,), "status": ("open",)})
