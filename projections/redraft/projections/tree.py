"""The steps of one run as a tree: loops, their passes, and the steps in them, as their paths name them.

    Refinement              loop, ended accepted
      Refinement[1]         pass
        Refinement[1]/judge step, scored 0.81
      Refinement[closing]   the critics' last look at a draft that nobody had judged

A pure fold over the run's stream. Any prefix of the stream gives the tree as it stood then (`show --at N`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from redraft.events.content import DraftRef
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
    PanelClosed,
    Parent,
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
from redraft.events.usage import Usage
from redraft.projections.branches import Branch, Group, Leaf, Loop, Pass, Status, Summary, Tree
from redraft.projections.plain import NAME_LENGTH, plain
from redraft.projections.vetoes import Vetoes

DEPTH: Final = 32
"""Levels of a path that are told apart; deeper ones stay one name."""

Answer: TypeAlias = DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished | StepFailed | VerdictLate


class _Facts(msgspec.Struct):
    """What the events said, by path; `paths` in the order in which they came up."""

    leaves: dict[str, Leaf] = msgspec.field(default_factory=dict)
    unanswered: dict[str, None] = msgspec.field(default_factory=dict)
    loops: dict[str, Loop] = msgspec.field(default_factory=dict)
    passes: dict[str, datetime] = msgspec.field(default_factory=dict)
    paths: dict[str, None] = msgspec.field(default_factory=dict)
    workflow: str = ""
    parent: Parent | None = None
    ended: Summary | None = None
    usage: Usage = Usage()
    paused: str = ""
    waiting: str = ""
    quarantined: str = ""
    vetoes: Vetoes = msgspec.field(default_factory=Vetoes)


def tree(events: Sequence[Recorded]) -> Tree:
    """The tree of a run after these events, its first ones in order; without events an empty tree."""
    facts = _Facts()
    for event in events:
        _note(facts, event)
    first, last = (events[0].time, events[-1].time) if events else (None, None)
    seconds = (last - first).total_seconds() if first and last else 0.0
    run = plain(events[0].run) if events else ""
    branches = _branches(facts, "", [path.split("/", DEPTH) for path in facts.paths])
    return Tree(
        run,
        facts.workflow,
        len(events),
        first,
        seconds,
        branches,
        facts.ended,
        facts.parent,
        facts.usage,
        facts.paused,
        facts.waiting,
        facts.quarantined,
    )


def steps(branches: Iterable[Branch]) -> Iterator[Leaf]:
    """Every step below these branches, in the order in which they were asked for within each pass."""
    for branch in branches:
        match branch:
            case Leaf():
                yield branch
            case Group(children=children):
                yield from steps(children)
            case Loop(passes=passes):
                for each in passes:
                    yield from steps(each.children)
            case _:
                assert_never(branch)


def _note(facts: _Facts, recorded: Recorded) -> None:
    event = recorded.data
    facts.vetoes.note(event)
    match event:
        case RunStarted():
            facts.workflow = plain(event.plan.name, NAME_LENGTH)
            facts.parent = event.parent
        case IterationStarted():
            _note_pass(facts, event.path, str(event.iteration), recorded.time)
        case StepRequested():
            _note_request(facts, event, recorded.time)
        case DraftGenerated() | DraftRefined():
            _note_answer(facts, event.path, recorded.time, draft=event.draft.version)
            _note_usage(facts, recorded, event)
        case DraftCritiqued() | VerdictLate():
            _note_answer(facts, event.path, recorded.time, draft=event.draft.version, score=event.critique.score)
            _note_usage(facts, recorded, event)
        case DraftPublished():
            _note_answer(facts, event.path, recorded.time, draft=event.draft.version)
            _note_usage(facts, recorded, event)
        case StepFailed():
            _note_failure(facts, event, recorded.time)
            _note_usage(facts, recorded, event)
        case LoopClosing():
            _note_pass(facts, event.path, "closing", recorded.time)
            facts.loops[event.path] = replace(_loop(facts, event.path), closing=plain(event.reason))
        case LoopEnded():
            _note_end(facts, event)
        case RunEnded():
            draft = event.draft.version if event.draft else None
            ended = recorded.time
            facts.ended = Summary(event.outcome, plain(event.reason), event.iterations, draft, event.score, ended)
            facts.paused = facts.waiting = ""
            _go_on(facts, "")
        case RunQuarantined(by=by, reason=reason):
            facts.quarantined = plain(f"by {by or 'a person'}: {reason}")
            facts.paused = facts.waiting = ""
            _go_on(facts, "")
        case RunPaused(by=by, reason=reason):
            facts.paused = plain(f"by {by or 'a person'}{f': {reason}' if reason else ''}")
        case RunResumed():
            facts.paused = ""
        case RunGuided() | LimitsChanged() | RunCancelled() | RunErased() | PanelClosed() | ChoicesCredited():
            pass
        case ApprovalRequested():
            _note_question(facts, event, recorded.time)
        case DraftApproved():
            if event.granted:
                _note_decision(facts, event.path, recorded.time, event.draft)
                facts.leaves[event.path] = replace(facts.leaves[event.path], overruled=facts.vetoes.overruled_by(event))
        case DraftRejected() | ApprovalExpired():
            _note_decision(facts, event.path, recorded.time, event.draft)
        case DraftEdited() | BudgetReached():
            facts.waiting = ""
            _go_on(facts, "")
        case _:
            assert_never(event)


def _note_pass(facts: _Facts, loop: str, label: str, time: datetime) -> None:
    _go_on(facts, f"{loop}[{label}]/")
    facts.paths.setdefault(f"{loop}[{label}]/")
    facts.passes.setdefault(f"{loop}[{label}]", time)


def _note_request(facts: _Facts, event: StepRequested, time: datetime) -> None:
    _go_on(facts, event.path)
    facts.paths.setdefault(event.path)
    facts.unanswered[event.path] = None
    known = facts.leaves.get(event.path)
    if known:
        since = time if event.attempt == known.attempts else known.requested
        again = replace(known, status="open", requested=since, attempts=max(known.attempts, event.attempt))
        facts.leaves[event.path] = replace(again, inherited=False)
        return
    actor, name = plain(event.actor, NAME_LENGTH), plain(event.path.split("/", DEPTH)[-1])
    chosen = plain(event.choice.arm, NAME_LENGTH) if event.choice else ""
    asked = Leaf(plain(event.path), name, event.role, actor, "open", event.attempt, time, chosen=chosen)
    facts.leaves[event.path] = asked


def _note_question(facts: _Facts, event: ApprovalRequested, time: datetime) -> None:
    _go_on(facts, event.path)
    people = ", ".join(event.approvers) or "anybody"
    facts.paths.setdefault(event.path)
    facts.unanswered[event.path] = None
    facts.waiting = plain(
        f"draft {event.draft.version} waits for {people} to approve it by {event.due:%Y-%m-%d %H:%M} UTC"
    )
    name = plain(event.path.split("/", DEPTH)[-1])
    asked = Leaf(plain(event.path), name, "approver", plain(people, NAME_LENGTH), "open", 1, time)
    facts.leaves[event.path] = replace(asked, draft=event.draft.version)


def _note_decision(facts: _Facts, path: str, time: datetime, draft: DraftRef) -> None:
    facts.waiting = ""
    _note_answer(facts, path, time, draft=draft.version)


def _note_answer(
    facts: _Facts, path: str, time: datetime, draft: int | None = None, score: float | None = None
) -> None:
    known = facts.leaves.get(path)
    if known:
        seconds = (time - known.requested).total_seconds()
        done = replace(known, status="done", finished=time, seconds=seconds, score=score, draft=draft, error="")
        facts.leaves[path] = done
        facts.unanswered.pop(path, None)


def _note_usage(facts: _Facts, recorded: Recorded, event: Answer) -> None:
    """What an answer used; nothing where a fork repeats what its parent's step used."""
    known = facts.leaves.get(event.path)
    if known and recorded.repeats:
        facts.leaves[event.path] = replace(known, inherited=True, seconds=None)
    elif not event.usage.is_nothing:
        facts.usage += event.usage
        if known:
            facts.leaves[event.path] = replace(known, usage=known.usage + event.usage)


def _note_failure(facts: _Facts, event: StepFailed, time: datetime) -> None:
    known = facts.leaves.get(event.path)
    if event.retry_at is None:
        facts.unanswered.pop(event.path, None)
    if known:
        status: Status = "waiting" if event.retry_at else "failed"
        seconds = (time - known.requested).total_seconds()
        error = plain(event.message)
        facts.leaves[event.path] = replace(known, status=status, finished=time, seconds=seconds, error=error)


def _loop(facts: _Facts, path: str) -> Loop:
    return facts.loops.get(path) or Loop(plain(path), plain(path.split("/", DEPTH)[-1]), ())


def _note_end(facts: _Facts, event: LoopEnded) -> None:
    known = _loop(facts, event.path)
    _go_on(facts, event.path)
    draft, reason = event.draft.version or None, plain(event.reason)
    facts.loops[event.path] = replace(known, outcome=event.outcome, reason=reason, draft=draft, score=event.score)


def _go_on(facts: _Facts, path: str) -> None:
    """The run went on to this path: only steps side by side with it are still waited for."""
    beside = path.rpartition("/")[0]
    for each in [each for each in facts.unanswered if not path or each.rpartition("/")[0] != beside]:
        facts.leaves[each] = replace(facts.leaves[each], status="dropped")
        del facts.unanswered[each]


def _branches(facts: _Facts, prefix: str, paths: Iterable[Sequence[str]]) -> tuple[Branch, ...]:
    """The branches below `prefix`. `paths` are the segments below it; a pass of a loop ends with an empty one."""
    below: dict[str, list[Sequence[str]]] = {}
    loops: dict[str, dict[str, list[Sequence[str]]]] = {}
    order: dict[tuple[str, str], None] = {}
    for head, *rest in paths:
        loop, bracket, label = head.rpartition("[")
        if rest and bracket and label.endswith("]"):
            order.setdefault(("loop", loop))
            loops.setdefault(loop, {}).setdefault(label[:-1], []).append(rest)
        elif head:
            order.setdefault(("below", head))
            below.setdefault(head, []).append(rest)
    return tuple(
        branch
        for kind, name in order
        for branch in (
            (_loop_branch(facts, prefix + name, loops[name]),)
            if kind == "loop"
            else _named(facts, prefix + name, below[name])
        )
    )


def _named(facts: _Facts, path: str, below: Sequence[Sequence[str]]) -> Iterator[Branch]:
    """The step of this path, and the group of those below it."""
    if path in facts.leaves:
        yield facts.leaves[path]
    inner = [each for each in below if each]
    if inner:
        yield Group(plain(path), plain(path.split("/", DEPTH)[-1]), _branches(facts, f"{path}/", inner))


def _loop_branch(facts: _Facts, path: str, passes: Mapping[str, Iterable[Sequence[str]]]) -> Loop:
    return replace(
        _loop(facts, path),
        passes=tuple(
            Pass(
                plain(f"{path}[{label}]"),
                label,
                facts.passes.get(f"{path}[{label}]"),
                _branches(facts, f"{path}[{label}]/", below),
            )
            for label, below in passes.items()
        ),
    )
