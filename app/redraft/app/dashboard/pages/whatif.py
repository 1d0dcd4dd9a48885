"""A slider over thresholds: what each would have made of the recorded runs of a workflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from redraft.app.dashboard.drawing.graphs import Graph, Text, Value, line_graph
from redraft.app.dashboard.visit import Visits, page
from redraft.app.process.times import moment_of
from redraft.app.runs.thresholds import Curve, Point, Thresholds
from redraft.events.messages.scales import Scale, on_scale
from redraft.projections.display import quoted, short_number
from redraft.projections.read_models.runs_query import RunFilter, list_workflows

_SECONDS: Final = 1.0
"""The seconds for which one request decides runs again; the page sends more until all are done."""

Decides = NamedDependency[SkipValidation[Thresholds]]


class WhatIfChoice(msgspec.Struct, frozen=True):
    """The query parameters; `at` is the position of the slider, in hundredths of the scale."""

    workflow: str = ""
    loop: str = ""
    since: str = ""
    at: Annotated[int, msgspec.Meta(ge=0, le=100)] = 80


class WhatIfShown(msgspec.Struct, frozen=True):
    """The curve over the runs that were decided so far; `point` is that at which the slider stands."""

    choice: WhatIfChoice
    workflows: Sequence[str]
    curve: Curve | None = None
    point: Point | None = None
    graphs: Sequence[Graph] = ()

    @property
    def command(self) -> str:
        """The command line that compares the threshold with what was recorded."""
        choice, until = self.choice, self.point.until if self.point else f"score >= {self.choice.at / 100:g}"
        given = {"workflow": choice.workflow or "NAME", "loop": choice.loop, "since": choice.since, "until": until}
        return " ".join(("redraft whatif", *(f"--{name} {quoted(each)}" for name, each in given.items() if each)))


@page("/whatif")
async def show_whatif(visit: Visits, thresholds: Decides) -> Response[Any]:
    """Shows acceptance, iterations and cost of the recorded runs by threshold."""
    asked = visit.query(WhatIfChoice)

    async def make() -> WhatIfShown:
        log = visit.service.runtime
        names = await list_workflows(log.views)
        choice = msgspec.structs.replace(asked, workflow=asked.workflow or next(iter(names), ""))
        if not choice.workflow:
            return WhatIfShown(choice, names)
        chosen = RunFilter("ended", choice.workflow, since=moment_of(choice.since, "since"))
        curve = await thresholds.curve(log, chosen, choice.loop, _SECONDS)
        point = min(curve.points, key=lambda each: abs(each.share - choice.at / 100), default=None)
        return WhatIfShown(choice, names, curve, point, _graphs(curve, point))

    return await visit.show("whatif", "What if", make, None)


def _graphs(curve: Curve, point: Point | None) -> list[Graph]:
    """Returns the charts of what moves with the threshold, each with the slider's place marked."""
    if point is None:
        return []
    points = curve.points
    accepted = {each.share: each.row.accepted for each in points}
    iterations = {each.share: each.row.mean_iterations for each in points}
    found = [
        _graph("accepted", "Accepted runs", accepted, _percent, curve, point, 1.0),
        _graph("iterations", "Mean iterations", iterations, _number, curve, point),
    ]
    if any(each.row.mean_cost for each in points):
        costs = {each.share: each.row.mean_cost for each in points}
        title = ", ".join(filter(None, ("Mean cost of a run", curve.currency)))
        found.append(_graph("cost", title, costs, _number, curve, point))
    return found


def _graph(
    key: str,
    title: str,
    values: dict[float, float | None],
    text: Text,
    curve: Curve,
    point: Point,
    top: float | None = None,
) -> Graph:
    series = {title: [Value(share, value) for share, value in values.items() if value is not None]}
    counted = {each.share: f"{each.row.runs - each.row.ended_early} of {each.row.runs} runs" for each in curve.points}
    scale = curve.scale
    x_title = "threshold" if scale is None else f"threshold, of {scale[1]:,.15g}"
    return line_graph(
        *(key, title, x_title, series, lambda share: _on_axis(share, scale), text, top, point.share), counted
    )


def _on_axis(share: float, scale: Scale | None) -> str:
    return f"{share:.2f}" if scale is None else short_number(on_scale(share, scale))


def _percent(value: float) -> str:
    return f"{value:.0%}"


def _number(value: float) -> str:
    return f"{value:.3g}"


PAGES: Final = (show_whatif,)
