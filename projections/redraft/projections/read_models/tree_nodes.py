"""The trees of all runs, one row per node: loops, their iterations, and the steps in them.

The rows of one run match what `tree` folds from its events. They hold no text, so erasing a run needs no change here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from redraft.events.messages import domain_events as events
from redraft.events.messages.content import Critique
from redraft.events.messages.domain_events import Outcome
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Role
from redraft.events.messages.scales import write_scale
from redraft.projections.engine.projection import (
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
from redraft.projections.engine.storage import row_decoder
from redraft.projections.engine.views import Views
from redraft.projections.read_models.runs import select_runs
from redraft.projections.run_views.tree_model import NodeStatus

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
        "scale": "TEXT",
        "draft": "INTEGER",
        "outcome": "TEXT NOT NULL",
        "started": "REAL NOT NULL",
        "ended": "REAL",
        "repeated": "INTEGER NOT NULL",
        "published": "INTEGER NOT NULL",
        "position": "INTEGER NOT NULL",
    },
    key=2,
    indexes={"tree_nodes_position": "(position)"},
)
"""`position` is that of the event that created a node; `repeated` is 1 where a fork repeats its parent's answer.

`published` is 1 for a parallel whose last answer was a publication.
"""
_EMPTY: Final = TABLE.empty_row()

NodeKind: TypeAlias = Literal["step", "approval", "parallel", "loop", "iteration"]
LEAVES: Final = ("step", "approval")
UNANSWERED: Final = ("open", "waiting")
_DROPPED: Final[Row] = {"status": "dropped"}
_AWAITED: Final = {"status": UNANSWERED, "kind": LEAVES}
"""Matches the steps with an open request; status comes first, as most rows of a run are of steps that are done."""
_PARALLELS: Final[Mapping[str, tuple[str | int | float, ...]]] = {"kind": ("parallel",), "status": ("open",)}
"""Matches the parallels that the run has not left yet."""


class TreeNode(msgspec.Struct, frozen=True):
    """A node of a run's tree, identified by its path; `parent` is empty at the top.

    `iteration` is the number (from 1) of an iteration, None for the closing one. `role`, `actor` and `attempts` belong
    to steps. `status`, `score` (0..1) and `draft` are as in `tree`; a loop, an iteration or a panel is open until the
    run leaves it. `outcome` is a loop's, empty while it runs. Times are UTC. `repeated`: done in the parent of this
    fork.
    """

    run: str
    path: str
    parent: str
    kind: NodeKind
    name: str
    iteration: int | None
    role: Role | Literal["approver", ""]
    actor: str
    status: NodeStatus
    attempts: int
    score: float | None
    scale: str | None
    draft: int | None
    outcome: Outcome | Literal[""]
    started: datetime
    ended: datetime | None
    repeated: bool


def project_nodes(run: Sequence[Recorded]) -> Iterator[Change]:
    """Yields what events of one run, in order, change in its tree."""
    within: str | None = None
    for recorded in run:
        before, within = within, _place_after(recorded.data, within)
        if within is not None and within != before:
            yield from _go_on(recorded, within)
        yield from _changes_at(recorded)


def _place_after(event: events.DomainEvent, within: str | None) -> str | None:
    """Returns the path within which all requests and parallels are that are open after an event; None if not known.

    `within` is that after the event before it.
    """
    match event:
        case events.IterationStarted(path=path, iteration=iteration):
            return f"{path}[{iteration}]"
        case events.LoopClosing(path=path):
            return f"{path}[closing]"
        case events.StepRequested() | events.CriticSkipped() | events.ApprovalRequested() | events.LoopEnded():
            return event.path.rpartition("/")[0]
        case (
            events.DraftGenerated()
            | events.DraftCritiqued()
            | events.DraftRefined()
            | events.StateChanged()
            | events.StepFailed()
        ):
            return within if event.path.rpartition("/")[0] == within else None
        case _:
            return None


def _changes_at(recorded: Recorded) -> Iterable[Change]:
    """Returns what an event changes in its run's tree, beside dropping what the run has left with it."""
    event, run = recorded.data, recorded.run
    match event:
        case events.RunStarted():
            return (Delete("tree_nodes", (run,)),)  # there are none: said, it need not be looked up
        case events.IterationStarted(path=path, iteration=iteration):
            return _begin_iteration(recorded, path, str(iteration), iteration)
        case events.LoopClosing(path=path):
            return _begin_iteration(recorded, path, "closing", None)
        case events.StepRequested():
            return _request_changes(recorded, event)
        case events.ApprovalRequested():
            return _approval_changes(recorded, event)
        case events.DraftCritiqued() | events.VerdictLate():
            return (_finish(recorded, event.path, event.draft.version, event.critique),)
        case events.DraftGenerated() | events.DraftRefined():
            return (_finish(recorded, event.path, event.draft.version),)
        case events.DraftPublished():
            return _finish(recorded, event.path, event.draft.version), _set_published(recorded, event.path, 1)
        case events.StateChanged():
            return (_end(recorded, event.path, "done"),) if event.path else ()
        case events.DraftApproved():
            return (_finish(recorded, event.path, event.draft.version),) if event.granted else ()
        case events.DraftRejected() | events.ApprovalExpired():
            return (_finish(recorded, event.path, event.draft.version),)
        case events.CriticSkipped():
            return _skip(recorded, event)
        case events.StepFailed():
            status: NodeStatus = "waiting" if event.retry_at else "failed"
            return _end(recorded, event.path, status), _set_published(recorded, event.path, 0)
        case events.LoopEnded():
            return _end_loop(recorded, event)
        case events.RunEnded():
            return _end_run(recorded, event)
        case events.DraftEdited() | events.BudgetReached():
            return _drop_awaited(recorded)
        case events.RunQuarantined():
            return _drop_all(recorded)
        case (
            events.ChoicesCredited()
            | events.PanelClosed()
            | events.RunErased()
            | events.RunGuided()
            | events.LimitsChanged()
            | events.RunPaused()
            | events.RunResumed()
            | events.RunCancelled()
            | events.LessonStruck()
        ):
            return ()
        case _ as never:
            assert_never(never)


TREE: Final = Projection(
    "tree", 5, (TABLE,), lambda recorded: project_nodes((recorded,)), unchanged, apply_run=project_nodes
)
"""The projection that keeps these nodes."""


async def tree_nodes(
    views: Views, run: str = "", since: datetime | None = None, workflow: str = "", limit: int | None = None
) -> list[TreeNode]:
    """Returns the nodes that started since a time, of a run, a workflow or all, in the order in which they appeared.

    With a `limit`, at most so many, the newest of them. `workflow` needs `RUNS` in the same storage.
    """
    columns = ", ".join(TreeNode.__struct_fields__)
    where, given = select_runs("started", since, workflow, run)
    sql = f"SELECT {columns} FROM tree_nodes WHERE {where} ORDER BY position DESC, length(path) DESC"  # noqa: S608
    newest = f"{sql} LIMIT :limit" if limit is not None else sql
    given |= {"limit": limit} if limit is not None else {}
    return (await views.read(row_decoder(TreeNode, "started", "ended"), newest, given))[::-1]


def _new_node(recorded: Recorded, path: str, kind: NodeKind, **more: Value) -> Row:
    """Returns the row of a node as it first appears."""
    parent, _, name = path.rpartition("/")
    return {
        **_EMPTY,
        "run": recorded.run,
        "path": path,
        "parent": parent,
        "kind": kind,
        "name": name,
        "status": "open",
        "started": seconds(recorded.time),
        "repeated": int(bool(recorded.repeats)),
        "position": recorded.position,
        **more,
    }


def _begin_iteration(recorded: Recorded, loop: str, label: str, iteration: int | None) -> Iterator[Change]:
    """Yields an iteration, its loop if it is the first, and the end of what came before."""
    run, path = recorded.run, f"{loop}[{label}]"
    yield _finish_iteration(recorded, loop)
    yield Set("tree_nodes", (run, loop), {}, new=_new_node(recorded, loop, "loop"))
    made = _new_node(recorded, path, "iteration", parent=loop, iteration=iteration)
    yield Set("tree_nodes", (run, path), {}, new=made)


def _request_changes(recorded: Recorded, event: events.StepRequested) -> Iterator[Change]:
    run, path, time = recorded.run, event.path, seconds(recorded.time)
    parent = path.rpartition("/")[0]
    if parent and not parent.endswith("]"):
        yield Set("tree_nodes", (run, parent), {}, new=_new_node(recorded, parent, "parallel"))
    yield Set("tree_nodes", (run, path), {"started": time}, where={"attempts": (event.attempt,)})
    asked: Row = {"status": "open", "repeated": int(bool(recorded.repeats))}
    new = _new_node(recorded, path, "step", role=event.role, actor=event.actor, attempts=event.attempt)
    if event.role == "step" and event.draft is not None:
        new["draft"] = event.draft.version
    yield Set("tree_nodes", (run, path), asked, maximum={"attempts": event.attempt}, new=new)


def _skip(recorded: Recorded, event: events.CriticSkipped) -> Iterator[Change]:
    """Yields the node of a critic that is not asked."""
    new = _new_node(recorded, event.path, "step", role="critic", actor=event.actor, draft=event.draft.version)
    left: Row = {"status": "skipped", "ended": seconds(recorded.time)}
    yield Set("tree_nodes", (recorded.run, event.path), left, new=new | left)


def _approval_changes(recorded: Recorded, event: events.ApprovalRequested) -> Iterator[Change]:
    people = ", ".join(event.approvers) or "anybody"
    new = _new_node(
        recorded, event.path, "approval", role="approver", actor=people, attempts=1, draft=event.draft.version
    )
    again = {name: value for name, value in new.items() if name not in ("run", "path", "position")}
    yield Set("tree_nodes", (recorded.run, event.path), again, new=new)


def _end(recorded: Recorded, path: str, status: NodeStatus, **more: Value) -> Change:
    values: Row = {"status": status, "ended": seconds(recorded.time), "repeated": int(bool(recorded.repeats)), **more}
    return Set("tree_nodes", (recorded.run, path), values)


def _finish(recorded: Recorded, path: str, draft: int, said: Critique | None = None) -> Change:
    if said is None:
        return _end(recorded, path, "done", draft=draft, score=None)
    return _end(recorded, path, "done", draft=draft, score=said.known_score, scale=write_scale(said.scale))


def _end_loop(recorded: Recorded, event: events.LoopEnded) -> Iterator[Change]:
    yield _finish_iteration(recorded, event.path)
    draft = event.draft.version or None
    shown: Row = {"score": event.score, "scale": write_scale(event.scale)}
    yield _end(recorded, event.path, "done", draft=draft, outcome=event.outcome, **shown)


def _go_on(recorded: Recorded, within: str) -> Iterator[Change]:
    """Drops open requests when the run moves on to `within`, except those of steps parallel to it."""
    run, time = recorded.run, seconds(recorded.time)
    yield SetAll("tree_nodes", run, _DROPPED, _AWAITED, {"parent": (within,)})
    done: Row = {"status": "done", "ended": time}
    yield SetAll("tree_nodes", run, done, {"kind": ("parallel",), "status": ("open",)}, {"path": (within,)})


def _drop_awaited(recorded: Recorded) -> Iterator[Change]:
    """Drops all open requests and open parallels."""
    ended: Row = {**_DROPPED, "ended": seconds(recorded.time)}
    yield SetAll("tree_nodes", recorded.run, _DROPPED, _AWAITED)
    yield SetAll("tree_nodes", recorded.run, ended, _PARALLELS)


def _end_run(recorded: Recorded, event: events.RunEnded) -> Iterator[Change]:
    """Ends open parallels as done, unless the run failed or was cancelled in them; drops all else that is open."""
    run, time = recorded.run, seconds(recorded.time)
    broken_off = event.outcome in ("failed", "cancelled")
    published = (1,) if broken_off else (0, 1)
    yield SetAll("tree_nodes", run, {"status": "done", "ended": time}, {**_PARALLELS, "published": published})
    yield from _drop_all(recorded)


def _drop_all(recorded: Recorded) -> Iterator[Change]:
    """Drops all open requests, and loops that have not ended."""
    yield from _drop_awaited(recorded)
    ended: Row = {**_DROPPED, "ended": seconds(recorded.time)}
    yield SetAll("tree_nodes", recorded.run, ended, {"status": ("open",)})


def _set_published(recorded: Recorded, path: str, whether: int) -> Change:
    """Returns the change that stores whether the last answer in the step's parallel, if any, was a publication."""
    key = (recorded.run, path.rpartition("/")[0])
    return Set("tree_nodes", key, {"published": whether}, where={"kind": ("parallel",)})


def _finish_iteration(recorded: Recorded, loop: str) -> Change:
    done: Row = {"status": "done", "ended": seconds(recorded.time)}
    return SetAll("tree_nodes", recorded.run, done, {"kind": ("iteration",), "parent": (loop,), "status": ("open",)})
