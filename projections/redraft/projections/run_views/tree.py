"""Folds the events of one run into a tree of loops, their iterations, and the steps in them.

    Refinement              loop, ended accepted
      Refinement[1]         iteration
        Refinement[1]/judge step, scored 0.81
      Refinement[closing]   the critics judge a last draft that no critic had judged

It is a pure fold over the run's stream. Any prefix of the stream gives the tree at that point (`show --at N`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from redraft.events.messages import domain_events as events
from redraft.events.messages.content import Critique, DraftRef, marks_text
from redraft.events.messages.domain_events import Parent
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.item_ids import run_of_item
from redraft.events.messages.plan import loops_of
from redraft.events.messages.run_state import Values
from redraft.events.messages.usage import Usage
from redraft.projections.display import NAME_LENGTH, in_one_line, plain, values_text
from redraft.projections.run_views.narrative import Vetoes, is_unjudged, plan_path
from redraft.projections.run_views.people_asked import waiting_text
from redraft.projections.run_views.sentences import condition_text, verdict_text
from redraft.projections.run_views.state import state_at
from redraft.projections.run_views.tree_model import Branch, Group, Iteration, Leaf, Loop, NodeStatus, Summary, Tree

NO_TREES: Final[Mapping[str, Tree]] = MappingProxyType({})

DEPTH: Final = 32
"""The maximum number of levels of a path; deeper ones form one name."""


class _Facts(msgspec.Struct):
    """The events of a run grouped by path; `paths` keeps the order in which they first appeared."""

    leaves: dict[str, Leaf] = msgspec.field(default_factory=dict)
    unanswered: dict[str, None] = msgspec.field(default_factory=dict)
    loops: dict[str, Loop] = msgspec.field(default_factory=dict)
    unjudged: frozenset[str] = frozenset()
    iterations: dict[str, datetime] = msgspec.field(default_factory=dict)
    paths: dict[str, None] = msgspec.field(default_factory=dict)
    workflow: str = ""
    parent: Parent | None = None
    ended: Summary | None = None
    usage: Usage = Usage()
    paused: str = ""
    waiting: str = ""
    asked: events.ApprovalRequested | None = None
    approved_by: tuple[str, ...] = ()
    quarantined: str = ""
    vetoes: Vetoes = msgspec.field(default_factory=Vetoes)
    inner: Mapping[str, Tree] = NO_TREES
    of: events.ItemOf | None = None


def tree(stream: Sequence[Recorded], inner: Mapping[str, Tree] = NO_TREES) -> Tree:
    """Returns the tree of a run after these events, its first ones in order; an empty tree without events.

    `inner` are the trees of the runs of its items, by their paths in this run.
    """
    facts = _Facts(inner=inner)
    for event in stream:
        _note(facts, event)
    first, last = (stream[0].time, stream[-1].time) if stream else (None, None)
    seconds = (last - first).total_seconds() if first and last else 0.0
    run = plain(stream[0].run) if stream else ""
    branches = _branches(facts, "", [path.split("/", DEPTH) for path in facts.paths])
    return Tree(
        run,
        facts.workflow,
        len(stream),
        first,
        seconds,
        branches,
        facts.ended,
        facts.parent,
        facts.usage,
        facts.paused,
        facts.waiting,
        facts.quarantined,
        values_text(state_at(stream).state),
        facts.of,
    )


def steps(branches: Iterable[Branch]) -> Iterator[Leaf]:
    """Yields every step below these branches, in the order of their requests within each iteration."""
    for branch in branches:
        match branch:
            case Leaf():
                yield branch
            case Group(children=children):
                yield from steps(children)
            case Loop(iterations=iterations):
                for each in iterations:
                    yield from steps(each.children)
            case _:
                assert_never(branch)


def _note(facts: _Facts, recorded: Recorded) -> None:
    event = recorded.data
    facts.vetoes.note(event)
    match event:
        case events.RunStarted():
            facts.workflow = plain(event.plan.name, NAME_LENGTH)
            facts.parent, facts.of = event.parent, event.of
            facts.unjudged = frozenset(path for path, loop in loops_of(event.plan.steps) if is_unjudged(loop))
        case events.IterationStarted():
            _note_iteration(facts, event.path, str(event.iteration), recorded.time)
        case events.StepRequested():
            _note_request(facts, event, recorded)
        case events.DraftGenerated() | events.DraftRefined() | events.DraftPublished():
            _note_answer(facts, event.path, recorded.time, draft=event.draft.version, changed=event.state)
            if isinstance(event, events.DraftRefined) and event.edits and event.path in facts.leaves:
                edited = replace(facts.leaves[event.path], edits=len(event.edits), saved_tokens=event.saved_tokens)
                facts.leaves[event.path] = edited
            _note_usage(facts, recorded, event)
        case events.DraftCritiqued() | events.VerdictLate():
            changed = {} if isinstance(event, events.VerdictLate) else event.state
            _note_answer(facts, event.path, recorded.time, event.draft.version, event.critique, changed)
            if isinstance(event, events.VerdictLate) and event.path in facts.leaves:
                facts.leaves[event.path] = replace(facts.leaves[event.path], late=True)
            elif overruled := facts.vetoes.overruled_by(event):
                facts.leaves[event.path] = replace(facts.leaves[event.path], overruled=overruled)
            _note_usage(facts, recorded, event)
        case events.StateChanged(path=path):
            _note_answer(facts, path, recorded.time, changed=event.state)
            _note_usage(facts, recorded, event)
        case events.StepFailed():
            _note_failure(facts, event, recorded.time)
            _note_usage(facts, recorded, event)
        case events.CriticSkipped():
            _note_skipped(facts, event, recorded.time)
        case events.LoopClosing():
            _note_iteration(facts, event.path, "closing", recorded.time)
            facts.loops[event.path] = replace(_loop_at(facts, event.path), closing=in_one_line(event.reason))
        case events.LoopEnded():
            _note_end(facts, event)
        case events.RunEnded():
            draft = event.draft.version if event.draft else None
            ended = recorded.time
            facts.ended = Summary(
                event.outcome, in_one_line(event.reason), event.iterations, draft, event.score, ended, event.scale
            )
            _halt(facts)
        case events.RunQuarantined(by=by, reason=reason):
            facts.quarantined = plain(f"by {by or 'a person'}: {reason}")
            _halt(facts)
        case events.RunPaused(by=by, reason=reason):
            facts.paused = plain(f"by {by or 'a person'}{f': {reason}' if reason else ''}")
        case events.RunResumed():
            facts.paused = ""
        case (
            events.RunGuided()
            | events.LimitsChanged()
            | events.RunCancelled()
            | events.RunErased()
            | events.PanelClosed()
            | events.ChoicesCredited()
            | events.LessonStruck()
        ):
            pass
        case events.ApprovalRequested():
            _note_question(facts, event, recorded.time)
        case events.DraftApproved():
            if event.granted:
                _note_decision(facts, event.path, recorded.time, event.draft)
                if known := facts.leaves.get(event.path):
                    facts.leaves[event.path] = replace(known, overruled=facts.vetoes.overruled_by(event))
            elif facts.asked and facts.waiting:
                facts.approved_by = (*facts.approved_by, event.by)
                facts.waiting = waiting_text(facts.asked, facts.approved_by)
        case events.DraftRejected() | events.ApprovalExpired():
            _note_decision(facts, event.path, recorded.time, event.draft)
        case events.DraftEdited() | events.BudgetReached():
            facts.waiting = ""
            _go_on(facts, "")
        case _:
            assert_never(event)


def _halt(facts: _Facts) -> None:
    facts.paused = facts.waiting = ""
    _go_on(facts, "")


def _note_iteration(facts: _Facts, loop: str, label: str, time: datetime) -> None:
    _go_on(facts, f"{loop}[{label}]/")
    facts.paths.setdefault(f"{loop}[{label}]/")
    facts.iterations.setdefault(f"{loop}[{label}]", time)


def _note_request(facts: _Facts, event: events.StepRequested, recorded: Recorded) -> None:
    time = recorded.time
    _go_on(facts, event.path)
    facts.paths.setdefault(event.path)
    facts.unanswered[event.path] = None
    known = facts.leaves.get(event.path)
    if known:
        since = time if event.attempt == known.attempts else known.requested
        again = replace(known, status="open", requested=since, attempts=max(known.attempts, event.attempt))
        again = _with_item_run(again, event, recorded, facts) if event.role == "run" else again
        facts.leaves[event.path] = _with_source(replace(again, inherited=False), event.reused, recorded.run)
        return
    actor, name = plain(event.actor, NAME_LENGTH), plain(event.path.split("/", DEPTH)[-1])
    chosen = plain(event.choice.arm, NAME_LENGTH) if event.choice else ""
    asked = Leaf(plain(event.path), name, event.role, actor, "open", event.attempt, time, chosen=chosen)
    if event.role == "run":
        asked = _with_item_run(asked, event, recorded, facts)
    if event.role == "step" and event.draft is not None:
        asked = replace(asked, draft=event.draft.version)
    facts.leaves[event.path] = _with_source(asked, event.reused, recorded.run) if event.reused else asked


def _with_item_run(leaf: Leaf, event: events.StepRequested, recorded: Recorded, facts: _Facts) -> Leaf:
    """Returns the leaf of an item with its run: what a fork repeats was done by a run of its parent's item."""
    around = facts.parent.run if recorded.repeats and facts.parent is not None else recorded.run
    return replace(leaf, run=plain(run_of_item(events.ItemOf(around, event.path))), inner=facts.inner.get(event.path))


def _with_source(leaf: Leaf, ref: events.EventRef | None, run: str) -> Leaf:
    """Returns the leaf with the event of this run, or of another, whose verdict is taken again."""
    if ref is None:
        return replace(leaf, reused=0, reused_from="")
    return replace(leaf, reused=ref.version, reused_from="" if ref.run == run else plain(ref.run, NAME_LENGTH))


def _note_skipped(facts: _Facts, event: events.CriticSkipped, time: datetime) -> None:
    facts.paths.setdefault(event.path)
    name = plain(event.path.split("/", DEPTH)[-1])
    left = Leaf(plain(event.path), name, "critic", plain(event.actor, NAME_LENGTH), "skipped", 0, time)
    facts.leaves[event.path] = replace(left, draft=event.draft.version, error=in_one_line(event.reason))


def _note_question(facts: _Facts, event: events.ApprovalRequested, time: datetime) -> None:
    _go_on(facts, event.path)
    people = ", ".join(event.approvers) or "anybody"
    facts.paths.setdefault(event.path)
    facts.unanswered[event.path] = None
    facts.asked, facts.approved_by = event, ()
    facts.waiting = waiting_text(event)
    name = plain(event.path.split("/", DEPTH)[-1])
    asked = Leaf(plain(event.path), name, "approver", plain(people, NAME_LENGTH), "open", 1, time)
    facts.leaves[event.path] = replace(asked, draft=event.draft.version)


def _note_decision(facts: _Facts, path: str, time: datetime, draft: DraftRef) -> None:
    facts.waiting = ""
    _note_answer(facts, path, time, draft=draft.version)


def _note_answer(
    facts: _Facts,
    path: str,
    time: datetime,
    draft: int | None = None,
    said: Critique | None = None,
    changed: Values | None = None,
) -> None:
    """Notes the answer of a step: with no draft of its own, it keeps the one that it was asked about."""
    known = facts.leaves.get(path)
    if known:
        seconds, draft = (time - known.requested).total_seconds(), known.draft if draft is None else draft
        done = replace(known, status="done", finished=time, seconds=seconds, draft=draft, error="")
        done = replace(done, changed=values_text(changed)) if changed else done
        if said is not None:
            held = condition_text(said)
            marks, verdict = held or plain(marks_text(said)), "" if held else verdict_text(said)
            done = replace(done, score=said.known_score, scale=said.scale, marks=marks, issues=len(said.issues))
            done = replace(done, verdict=verdict)
        facts.leaves[path] = done
        facts.unanswered.pop(path, None)


def _note_usage(facts: _Facts, recorded: Recorded, event: events.StepAnswered | events.VerdictLate) -> None:
    """Adds the usage of an answer; nothing where a fork repeats its parent's step."""
    known = facts.leaves.get(event.path)
    if known and recorded.repeats:
        facts.leaves[event.path] = replace(known, inherited=True, seconds=None)
    elif not event.usage.is_nothing:
        facts.usage += event.usage
        if known:
            facts.leaves[event.path] = replace(known, usage=known.usage + event.usage)


def _note_failure(facts: _Facts, event: events.StepFailed, time: datetime) -> None:
    known = facts.leaves.get(event.path)
    if event.retry_at is None:
        facts.unanswered.pop(event.path, None)
    if known:
        status: NodeStatus = "waiting" if event.retry_at else "failed"
        seconds = (time - known.requested).total_seconds()
        error = in_one_line(event.message)
        facts.leaves[event.path] = replace(known, status=status, finished=time, seconds=seconds, error=error)


def _loop_at(facts: _Facts, path: str) -> Loop:
    known = facts.loops.get(path)
    return known or Loop(plain(path), plain(path.split("/", DEPTH)[-1]), (), unjudged=plan_path(path) in facts.unjudged)


def _note_end(facts: _Facts, event: events.LoopEnded) -> None:
    known = _loop_at(facts, event.path)
    _go_on(facts, event.path)
    draft, reason = event.draft.version or None, in_one_line(event.reason)
    ended = replace(known, outcome=event.outcome, reason=reason, draft=draft, score=event.score, scale=event.scale)
    facts.loops[event.path] = ended


def _go_on(facts: _Facts, path: str) -> None:
    """Drops open requests when the run moves on to this path, except those of steps parallel to it."""
    beside = path.rpartition("/")[0]
    for each in [each for each in facts.unanswered if not path or each.rpartition("/")[0] != beside]:
        leaf = facts.leaves[each]
        at_work = leaf.role == "publisher" and leaf.status == "open"
        facts.leaves[each] = replace(leaf, status="dropped", may_have_delivered=at_work)
        del facts.unanswered[each]


def _branches(facts: _Facts, prefix: str, paths: Iterable[Sequence[str]]) -> tuple[Branch, ...]:
    """Returns the branches below `prefix`; `paths` are the segments there; an iteration's ends with an empty one."""
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
            else _step_and_group(facts, prefix + name, below[name])
        )
    )


def _step_and_group(facts: _Facts, path: str, below: Sequence[Sequence[str]]) -> Iterator[Branch]:
    """Yields the step of this path, and the group of those below it."""
    if path in facts.leaves:
        yield facts.leaves[path]
    inner = [each for each in below if each]
    if inner:
        yield Group(plain(path), plain(path.split("/", DEPTH)[-1]), _branches(facts, f"{path}/", inner))


def _loop_branch(facts: _Facts, path: str, iterations: Mapping[str, Iterable[Sequence[str]]]) -> Loop:
    made = tuple(_iteration(facts, path, label, below) for label, below in iterations.items())
    return replace(_loop_at(facts, path), iterations=made)


def _iteration(facts: _Facts, loop: str, label: str, below: Iterable[Sequence[str]]) -> Iteration:
    path = f"{loop}[{label}]"
    children, started = _branches(facts, f"{path}/", below), facts.iterations.get(path)
    return Iteration(plain(path), label, started, children, _took(started, list(steps(children))))


def _took(started: datetime | None, leaves: Sequence[Leaf]) -> float | None:
    """Returns the seconds to the last answer; None while one is awaited, and where none was given in this run."""
    answered = [each.finished for each in leaves if each.finished is not None and not each.inherited]
    if started is None or not answered or any(each.status in ("open", "waiting") for each in leaves):
        return None
    return max(0.0, (max(answered) - started).total_seconds())
