"""Decides whether a critic with a condition is asked about a draft, by what was said of it so far. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from redraft.actors.deciding.facts import Facts, describe, describe_unknown, holds
from redraft.actors.deciding.judgement import join_panel, join_row
from redraft.actors.deciding.run_values import visible_values
from redraft.actors.deciding.state import Frame, ParallelState, RunState, weights_of, with_top
from redraft.actors.plans.paths import critics_before
from redraft.events.messages.conditions import Not
from redraft.events.messages.domain_events import CriticSkipped
from redraft.events.messages.plan import Step


def waits_for_others(parallel: ParallelState, step: Step) -> bool:
    """Returns whether critics of the panel that this one comes after have not answered yet."""
    return step.when is not None and len(parallel.verdicts) < _before(parallel)


def skip(state: RunState, top: Frame, step: Step, path: str) -> CriticSkipped | None:
    """Returns that the critic is not asked about the current draft; None if it is."""
    if step.when is None or state.current is None:
        return None
    said = list(top.verdicts)
    if top.parallel is not None:
        panel = replace(top.parallel, verdicts=top.parallel.verdicts[: _before(top.parallel)])
        own = [each for _, each in panel.verdicts]
        said.append(join_panel(own, panel.node.combine, weights_of(panel), state.rules))
    critics = critics_before(top.body, top.index)
    heard = join_row(said, critics, state.rules)
    values = visible_values(state, top)
    facts = Facts(heard, "", 0, 0.0, 0, 0.0, (), (), critics=critics, rules=state.rules, values=values)
    if holds(step.when, facts, limits=True):
        return None
    reason = describe(Not(step.when), facts) or describe_unknown(step.when, facts)
    return CriticSkipped(path, step.actor, state.current.ref, reason)


def note_skipped(state: RunState, top: Frame) -> tuple[RunState, Frame]:
    """Returns the state and its frame after the next critic was skipped, which takes no part in the judgement."""
    if top.parallel is None:
        top = replace(top, index=top.index + 1, due="nothing")
    else:
        parallel = replace(top.parallel, requested=top.parallel.requested + 1, skipped=top.parallel.skipped + 1)
        top = replace(top, parallel=parallel)
    return with_top(state, top), top


def _before(parallel: ParallelState) -> int:
    return sum(step.when is None for step in parallel.node.steps)
