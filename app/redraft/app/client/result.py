"""The result of a run, gathered from its events: `refine` returns it, `run --json` prints it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias, cast, get_args

import msgspec

from redraft.actors.deciding.forking import why_unfit
from redraft.actors.deciding.state import RunState
from redraft.actors.plans.check import check_ready
from redraft.actors.plans.check_state import values_misfit
from redraft.actors.values import shown
from redraft.actors.workflow.workflow import Workflow, pin_versions, unpin_versions
from redraft.app.subscribing.misfits import folded, unread
from redraft.app.subscribing.subscriber import is_end, refuse_set_aside
from redraft.events.errors import InputError, PlanError
from redraft.events.messages.commands import StartRun
from redraft.events.messages.content import Brief, Critique, DraftRef, Edit
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    Outcome,
    Parent,
    RunEnded,
    RunQuarantined,
    RunStarted,
    StateChanged,
    StepFailed,
    VerdictLate,
)
from redraft.events.messages.envelope import Entry, Recorded, Unreadable
from redraft.events.messages.plan import Plan, Repeat
from redraft.events.messages.run_state import Values, size_fault
from redraft.events.messages.scales import Scale
from redraft.events.messages.tags import check_tags
from redraft.events.messages.usage import Usage
from redraft.events.store.event_store import EventStore
from redraft.projections.run_views.state import state_at as values_at


class FinalDraft(msgspec.Struct, frozen=True):
    version: int
    sha256: str
    text: str


class CritiqueMade(msgspec.Struct, frozen=True):
    """A critique with the step that made it and the draft that it speaks of."""

    path: str
    draft: DraftRef
    critique: Critique


class AttemptMade(msgspec.Struct, frozen=True, omit_defaults=True):
    """One refinement: the iteration (from 1), the draft before, the draft after, the changes applied.

    `edits` are those that it was made by, if the refiner gave no whole text; `saved_tokens` is what they saved.

    The texts of both drafts are there on demand: in Python always, in the JSON of `redraft run --json --texts`.
    """

    path: str
    iteration: int
    before: DraftRef
    after: DraftRef
    changes: tuple[str, ...]
    text_before: str = ""
    text_after: str = ""
    edits: tuple[Edit, ...] = ()
    saved_tokens: int = 0


class Publication(msgspec.Struct, frozen=True):
    path: str
    draft: DraftRef
    location: str


class Result(msgspec.Struct, frozen=True):
    """A run's end. `score` is the final draft's (0..1), shown on the critics' `scale`; `draft` is None when no draft
    was made.

    `usage` is what all its steps used, failed attempts included; `state` are the values of its state at the end.
    """

    run: str
    outcome: Outcome
    reason: str
    iterations: int
    score: float | None
    draft: FinalDraft | None
    critiques: tuple[CritiqueMade, ...]
    attempts: tuple[AttemptMade, ...]
    publications: tuple[Publication, ...]
    usage: Usage = Usage()
    scale: Scale | None = None
    state: Values = {}

    @property
    def text(self) -> str:
        """The final draft's text; empty when no draft was made."""
        return self.draft.text if self.draft else ""

    def without_texts(self) -> Result:
        """Returns the result without the texts of its attempts; the final draft's stays."""
        bare = tuple(msgspec.structs.replace(each, text_before="", text_after="", edits=()) for each in self.attempts)
        return msgspec.structs.replace(self, attempts=bare)


_Answer: TypeAlias = (
    DraftGenerated | DraftRefined | DraftCritiqued | DraftPublished | StateChanged | StepFailed | VerdictLate
)
_ANSWERS: Final = frozenset(get_args(_Answer))
_GATHERED: Final = _ANSWERS | {DraftEdited}
"""The events that a result tells of, beside its end."""


def result_of(events: Sequence[Recorded]) -> Result | None:
    """The result of a run from all its events; None while it has not ended. Raises SetAside for one that is."""
    ended = next((each for each in reversed(events) if is_end(each)), None)
    if ended is not None:
        refuse_set_aside(ended)
    if ended is None or not isinstance(ended.data, RunEnded):
        return None
    gathered = _gather(ended.run, ended.data, [each.data for each in events])
    return msgspec.structs.replace(gathered, state=values_at(events).state)


def _gather(run: str, ended: RunEnded, happened: Sequence[DomainEvent]) -> Result:
    texts: dict[DraftRef, str] = {}
    critiques: list[CritiqueMade] = []
    attempts: list[AttemptMade] = []
    publications: list[Publication] = []
    usage = Usage()
    for each in happened:
        if type(each) not in _GATHERED:
            continue
        match each:
            case DraftCritiqued():
                critiques.append(CritiqueMade(each.path, each.draft, each.critique))
            case DraftRefined():
                texts[each.draft.ref] = each.draft.text
                attempts.append(_attempt(each, texts.get(each.before, "")))
            case DraftGenerated() | DraftEdited():
                texts[each.draft.ref] = each.draft.text
            case DraftPublished():
                publications.append(Publication(each.path, each.draft, each.receipt.location))
            case _:
                pass
        if type(each) in _ANSWERS and not (used := cast("_Answer", each).usage).is_nothing:
            usage += used
    return Result(
        *(run, ended.outcome, ended.reason, ended.iterations, ended.score),
        _final(texts, ended.draft),
        tuple(critiques),
        tuple(attempts),
        tuple(publications),
        usage,
        ended.scale,
    )


def _attempt(refined: DraftRefined, text_before: str) -> AttemptMade:
    return AttemptMade(
        *(refined.path, _iteration(refined.path), refined.before, refined.draft.ref, refined.changes),
        text_before,
        *(refined.draft.text, refined.edits, refined.saved_tokens),
    )


def readable(entries: Sequence[Entry]) -> tuple[Recorded, ...]:
    """The events of a run. Raises SetAside where one cannot be read, unless a person has set the run aside since."""
    events = tuple(each for each in entries if isinstance(each, Recorded))
    for each in entries:
        if isinstance(each, Unreadable) and not any(isinstance(event.data, RunQuarantined) for event in events):
            raise unread(each)
    return events


def _final(texts: Mapping[DraftRef, str], chosen: DraftRef | None) -> FinalDraft | None:
    """The draft that was chosen, with its text; one that was refused in between may have the same number."""
    return FinalDraft(chosen.version, chosen.sha256, texts[chosen]) if chosen and chosen in texts else None


def _iteration(path: str) -> int:
    """The innermost iteration that a path names; 0 outside of loops."""
    for part in reversed(path.split("/")):
        number = part.partition("[")[2].rstrip("]")
        if number.isdigit():
            return int(number)
    return 0


def refuse_other(start: StartRun, recorded: Sequence[Recorded]) -> None:
    """Raises InputError when the run of this key is recorded, and has another brief, workflow or parent.

    So it does for other tags, other values of the state and other limits; a fork also has to have the same settings and
    changes of the state. `recorded` are its first events, `told_by` this start.
    """
    for begun in [each.data for each in recorded if isinstance(each.data, RunStarted)]:
        is_fork = start.parent is not None
        found = {
            "another brief": begun.brief.text != start.brief.text,
            "another state": begun.brief.state != start.brief.state,
            f"another workflow, {begun.plan.name}": begun.plan.name != start.plan.name,
            "another parent": begun.parent != start.parent,
            "another change of the state": is_fork and _changes_of_fork(recorded, start.parent) != start.state,
            "another setting": is_fork and unpin_versions(begun.plan) != unpin_versions(start.plan),
            "other limits": _limits(begun.plan) != _limits(start.plan),
            "other tags": set(begun.tags) != set(start.tags),
        }
        if other := next((what for what, differs in found.items() if differs), ""):
            raise InputError(f"key {start.key!r} was used for {other}: run {start.run}; give another key")


async def refuse_other_start(start: StartRun, store: EventStore | None) -> None:
    """Does so for the run as it is recorded; without a store the coordinator keeps the run as it is."""
    if start.key and store is not None:
        refuse_other(start, await store.read(start.run, upto=told_by(start)))


def told_by(start: StartRun) -> int:
    """Returns how many events of a run tell what it began with: the changes of a fork follow what it repeats."""
    return 1 if start.parent is None else start.parent.version + 1


def _limits(plan: Plan) -> object:
    """Returns the limits that can be given for a run of a plan: those of its outermost loops, and its budget."""
    return plan.budget, [(each.until, each.max_iterations) for each in plan.steps if isinstance(each, Repeat)]


def _changes_of_fork(recorded: Sequence[Recorded], parent: Parent | None) -> Values:
    """Returns the values with which a fork went on, right after the events that it repeats."""
    first = parent.version + 1 if parent else 0
    changes = (each.data for each in recorded if each.version == first)
    return next((each.state for each in changes if isinstance(each, StateChanged) and not each.path), {})


class Change(msgspec.Struct, frozen=True):
    """The changes of a fork against its parent at that event; None keeps what the parent had.

    `state` are values of its state that change; so are those of another brief.
    """

    plan: Workflow | Plan | None = None
    brief: Brief | str | None = None
    tags: Iterable[str] | None = None
    state: Values = {}


def fork_of(past: Sequence[Recorded], at: int, run: str, key: str, change: Change) -> StartRun:
    """Returns the message that starts `run` as a fork, at event `at`, of the run with all the events `past`.

    Raises InputError when there is no such event, the run had ended by it, or the fork cannot begin like this.
    """
    before = state_at(past, at)
    begun = past[0].data
    tags = begun.tags if change.tags is None and isinstance(begun, RunStarted) else change.tags or ()
    plan = _ready(unpin_versions(before.plan) if change.plan is None else change.plan)
    brief, values = before.brief, change.state
    if change.brief is not None:
        given = as_brief(change.brief)
        brief, values = msgspec.structs.replace(given, state=brief.state), {**given.state, **values}
    check_values(plan, values, before.values)
    start = StartRun(run, plan, brief, key, check_tags(tags), Parent(past[0].run, at), state=values)
    if fault := why_unfit(start, past[:at]):
        raise InputError(f"it cannot be forked: {fault}")
    return start


def _ready(plan: Workflow | Plan) -> Plan:
    """Returns the plan of a fork. Raises PlanError, with the remedy where a run of an earlier release began with it."""
    try:
        return planned(plan)
    except PlanError as error:
        setting, colon, _ = error.fault.partition(": ")
        if not colon or setting not in _SETTABLE:
            raise
        remedy = f"a fork needs another: --set '{error.path}.{setting}={_SETTABLE[setting]}'"
        raise PlanError(error.path, f"{error.fault}; {remedy}") from None


_SETTABLE: Final = {"until": "score >= 90 of 100", "rollback_margin": "10 of 100"}
"""The settings by which a fork replaces a condition or margin that is refused for new runs, each with an example."""


def state_at(past: Sequence[Recorded], at: int) -> RunState:
    """Returns the state of a run at an event. Raises InputError where it cannot be forked there."""
    run = past[0].run
    if not 1 <= at <= len(past):
        raise InputError(f"run {run} has {len(past)} events, and none is number {at}; give 1 to {len(past)}")
    state = folded(past[:at])
    if state.status != "running" or state.cancelled is not None or state.refused:
        raise InputError(f"run {run} had already ended at event {at}: nothing is left to do; fork at an earlier one")
    return state


def check_values(plan: Plan, values: Values, before: Values | None = None) -> None:
    """Raises InputError for values that cannot be in the state of a run of this plan, beside those before."""
    known = (plan.state.defaults if plan.state else {}) if before is None else before
    if fault := values_misfit(plan.state, values) or size_fault({**known, **values}):
        raise InputError(f"state: {fault}")


def planned(workflow: Workflow | Plan) -> Plan:
    """The plan of a workflow, with the versions of its actors; a plan as it is. Raises PlanError for a faulty one."""
    if isinstance(workflow, Workflow):
        return pin_versions(workflow.plan, workflow.actors.values())
    return check_ready(workflow)


def as_brief(brief: Brief | str) -> Brief:
    """Raises InputError for what is no text: nobody could read the start of its run."""
    made = brief if isinstance(brief, Brief) else Brief(brief)
    if not isinstance(made.text, str):
        raise InputError(f"a brief is a text, and not {shown(made.text)}; give a string, or a Brief of one")
    for field in ("media_type", "source"):
        if not isinstance(value := getattr(made, field), str):
            raise InputError(f"the {field} of a brief is a text, and not {shown(value)}; give a string")
    return made
