"""The judgement that critiques of a draft come to, made of them and the plan alone, without the state. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from redraft.actors.deciding.declared import judgement_of
from redraft.actors.deciding.judgement import Judgement, join, join_panel
from redraft.actors.plans.paths import step_key
from redraft.events.messages.content import Critique
from redraft.events.messages.plan import Parallel, Step


def rejoin(
    said: Sequence[tuple[str, Critique]], steps: Mapping[str, Step], panels: Mapping[str, Parallel], rules: int
) -> Judgement:
    """Returns critiques of one draft as conditions read them: of a panel as it combines them, of a row the lowest.

    `said` are the critiques in the order in which they were given, each with the path of its step; `steps` and `panels`
    are those of the plan, by path, and `rules` those of the run.
    """
    found = [(step_key(path), critique) for path, critique in said]
    if not panels:
        return join([_judgement_of(steps.get(key), critique) for key, critique in found])
    joined: list[Judgement] = []
    for place, those in groupby(found, key=lambda each: each[0].rpartition("/")[0]):
        row = list(those)
        judged = [_judgement_of(steps.get(key), critique) for key, critique in row]
        if (panel := panels.get(place)) is None:
            joined += judged
            continue
        order = [step.name for step in panel.steps]
        weights = [panel.weights[order.index(key.rpartition("/")[2])] for key, _ in row] if panel.weights else ()
        joined.append(join_panel(judged, panel.combine, weights, rules))
    return join(joined)


def _judgement_of(step: Step | None, critique: Critique) -> Judgement:
    return judgement_of(0, critique, gate=step is not None and step.gate, scored=False, step=step)
