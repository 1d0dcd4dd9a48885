"""Recorded runs decided again under other policies: one under each, or the policies compared over many runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import get_args

import msgspec

from redraft.actors.deciding.policy import Policy
from redraft.actors.replay.whatif import Decision, Divergence, RunSummary, WhatIf, what_if_each
from redraft.app.subscribing.misfits import following_its_plan
from redraft.app.wiring.local import LocalRuntime
from redraft.app.workflows.sources import margin_of, read_condition
from redraft.events.errors import CodecError, InputError, Tampered
from redraft.events.messages.conditions import Condition
from redraft.events.messages.content import Mark
from redraft.events.messages.domain_events import StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Keep
from redraft.events.messages.scales import Scale
from redraft.projections.display import plain
from redraft.projections.read_models.runs_query import RunFilter, page_of_runs
from redraft.projections.run_views.sentences import describe, path_of

AS_RECORDED = "as recorded"


class Row(msgspec.Struct, frozen=True):
    """A policy over `runs` records, of which `ended_early` hold too little to say how the run would have ended.

    The means and the share of accepted runs (0..1) are over all others; None where there are none. A score is that of
    the final draft, 0..1, where it was judged; `criteria` and `measures` are the means of those of the final drafts.
    """

    policy: str
    runs: int
    ended_early: int
    mean_steps: float | None
    mean_score: float | None
    accepted: float | None
    scale: Scale | None = None
    criteria: tuple[Mark, ...] = ()
    measures: dict[str, float] = {}
    mean_iterations: float | None = None
    mean_cost: float | None = None


class LeftOut(msgspec.Struct, frozen=True):
    """A number of runs that no policy was compared over, and why: what a policy names is not in their plans."""

    runs: int
    why: str


class Comparison(msgspec.Struct, frozen=True):
    """The runs as recorded, then each policy over the same runs, and the runs that are in no row."""

    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...] = ()


def row_of(policy: str, courses: Sequence[RunSummary]) -> Row:
    """Returns the row of a policy under which the runs went so."""
    ended = [each for each in courses if each.outcome is not None]
    return Row(
        policy,
        len(courses),
        len(courses) - len(ended),
        _mean([each.steps for each in ended]),
        _mean([each.score for each in ended if each.score is not None]),
        _mean([each.outcome == "accepted" for each in ended]),
        _common_scale([each.scale for each in ended if each.score is not None]),
        _mean_marks([mark for each in ended for mark in each.criteria]),
        _mean_measures(ended),
        _mean([each.iterations for each in ended]),
        _mean([each.cost for each in ended]),
    )


def rows_of(policies: Sequence[str], runs: Sequence[Sequence[RunSummary]]) -> tuple[Row, ...]:
    """Returns the rows of runs, each as recorded and then under each policy: those as recorded, then each policy's."""
    names = (AS_RECORDED, *policies)
    return tuple(row_of(name, courses) for name, courses in zip(names, zip(*runs, strict=True), strict=True))


def _mean_marks(marks: Sequence[Mark]) -> tuple[Mark, ...]:
    by_name: dict[str, list[Mark]] = {}
    for each in marks:
        by_name.setdefault(each.name, []).append(each)
    return tuple(
        Mark(name, fmean(each.score for each in those), scale=_common_scale([each.scale for each in those]))
        for name, those in by_name.items()
    )


def _mean_measures(ended: Sequence[RunSummary]) -> dict[str, float]:
    names = dict.fromkeys(name for each in ended for name in each.measures)
    return {name: fmean(each.measures[name] for each in ended if name in each.measures) for name in names}


async def compare_policies(
    log: LocalRuntime, chosen: RunFilter, limit: int, policies: Sequence[Policy], loop: str
) -> Comparison:
    """Returns the runs as recorded, then under each policy; without those for whose plan a policy cannot be read, and
    those whose record does not follow its plan.

    Raises InputError when no run fits the filter, or what cannot be read for the newest when it is so for all.
    """
    lines = await page_of_runs(log.views, chosen, limit)
    if not lines:
        raise InputError(f"no run of the workflow {chosen.workflow!r} has ended{' since then' if chosen.since else ''}")
    found: list[list[WhatIf]] = []
    faults: list[InputError] = []
    for line in lines:
        try:
            events = await log.store.read(line.run)
            found.append(await asyncio.to_thread(decide_each, events, policies, loop))
        except InputError as error:
            faults.append(error)
        except (CodecError, Tampered):  # what is wrong with one run concerns that run alone
            faults.append(InputError("the record does not follow its plan: redraft audit --all --verify names the run"))
    if not found:
        raise faults[0]
    runs = [(each[0].recorded, *(policy.imagined for policy in each)) for each in found]
    left_out = tuple(LeftOut(runs, why) for why, runs in Counter(map(str, faults)).most_common())
    return Comparison(rows_of([str(policy) for policy in policies], runs), left_out)


def decide_each(events: Sequence[Recorded], policies: Sequence[Policy], loop: str) -> list[WhatIf]:
    """Returns what `what_if_each` does. Raises as it does, and CodecError for a record that fits no plan."""
    with following_its_plan(events[0].run):
        return what_if_each(events, policies, loop)


def read_policies(
    until: Sequence[str], max_iterations: int | None, keep: str | None, rollback_margin: str | None
) -> list[Policy]:
    """Returns a policy for each condition, or one without. Raises InputError for what is wrong, or changes nothing."""
    kept = next((each for each in get_args(Keep) if each == keep), None)
    if keep is not None and kept is None:
        raise InputError(f"--keep is {keep!r}; write {' or '.join(get_args(Keep))}")
    conditions: list[Condition | None] = [read_condition(text) for text in until]
    margin = margin_of(rollback_margin) if rollback_margin is not None else None
    found = [Policy(each, max_iterations, kept, margin) for each in conditions or [None]]
    if any(policy.changes_nothing for policy in found):
        raise InputError("say what should differ: --until, --max-iterations, --keep or --rollback-margin")
    return found


def whatif_document(policy: Policy, found: WhatIf) -> dict[str, object]:
    """Returns a run under another policy as JSON shows it."""
    document = msgspec.structs.asdict(found)
    parting = found.parting
    if parting is not None:
        document["parting"] = {
            "version": parting.version,
            "path": divergence_path(parting),
            "recorded": decision_text(parting.recorded),
            "instead": decision_text(parting.instead),
        }
    return {"policy": str(policy), **document, "saved": found.saved}


def divergence_path(parting: Divergence) -> str:
    """Returns the step at which two courses differ."""
    decision = parting.instead or parting.recorded
    return plain(path_of(decision)) if decision else ""


def decision_text(decision: Decision | None) -> str:
    """Returns a decision in words; nothing for none."""
    if decision is None:
        return ""
    if not isinstance(decision, StepRequested):
        return describe(decision, "coordinator")
    actor = decision.choice.arm if decision.choice else decision.actor
    return describe(decision, f"{decision.role} {plain(actor)}")


def _common_scale(scales: Sequence[Scale | None]) -> Scale | None:
    """Returns the scale of all scores; None if they differ, and can only be compared as shares."""
    return scales[0] if len(set(scales)) == 1 else None


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None
