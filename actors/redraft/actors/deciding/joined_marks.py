"""The scores by criterion that critics gave a draft together, made of their critiques and the plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from redraft.actors.deciding.declared import judgement_of
from redraft.actors.deciding.judgement import Judgement, join
from redraft.actors.plans.paths import step_key
from redraft.events.messages.content import Critique
from redraft.events.messages.plan import Parallel, Step


def joined_marks(
    said: Sequence[tuple[str, Critique]], steps: Mapping[str, Step], panels: Mapping[str, Parallel]
) -> dict[str, float]:
    """Returns the scores by criterion as conditions read them: of a panel as it combines them, of a row the lowest.

    `said` are the critiques of a draft in the order of its judgement, each with the path of its step; `steps` and
    `panels` are those of the plan, by path.
    """
    joined: list[Judgement] = []
    keyed = [(step_key(path), critique) for path, critique in said]
    for place, those in groupby(keyed, key=lambda each: each[0].rpartition("/")[0]):
        found = list(those)
        judged = [judgement_of(0, each, gate=steps[key].gate, scored=False, step=steps[key]) for key, each in found]
        if (panel := panels.get(place)) is None:
            joined += judged
            continue
        order = [step.name for step in panel.steps]
        weights = [panel.weights[order.index(steps[key].name)] for key, _ in found] if panel.weights else ()
        joined.append(join(judged, panel.combine, weights))
    return join(joined).marks
