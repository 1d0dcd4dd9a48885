"""Recorded runs decided again under other policies, at no model cost."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from litestar import Response, get
from litestar.params import FromQuery, QueryParameter

from redraft.app.process.times import moment_of
from redraft.app.record.past import events_of
from redraft.app.runs.comparing import Comparison, compare_policies, decide_each, read_policies, whatif_document
from redraft.app.server.api.answers import answer, computed
from redraft.app.server.api.parameters import Limit, RunPath, Since
from redraft.app.server.service import Serves
from redraft.events.messages.plan import Keep
from redraft.projections.read_models.runs_query import RunFilter

Until: TypeAlias = Annotated[
    list[str] | None, QueryParameter(max_items=20, description="End the loop when this holds; each is a policy.")
]
MaxIterations: TypeAlias = Annotated[int | None, QueryParameter(ge=1, le=1_000_000)]
Margin: TypeAlias = Annotated[
    str | None, QueryParameter(max_length=50, description="A fall in score: a number, or one with its scale, 1 of 10.")
]


@get("/runs/{run:str}/whatif", summary="Decide a run again")
async def whatif(
    service: Serves,
    run: RunPath,
    until: Until = None,
    max_iterations: MaxIterations = None,
    keep: FromQuery[Keep | None] = None,
    rollback_margin: Margin = None,
    loop: FromQuery[str] = "",
) -> Response[bytes]:
    """Shows a recorded run under other policies: where they first differ, and what would have been saved."""
    policies = read_policies(until or (), max_iterations, keep, rollback_margin)
    events = await events_of(service.runtime, run)
    return await computed(
        lambda: [whatif_document(*each) for each in zip(policies, decide_each(events, policies, loop), strict=True)]
    )


@get("/whatif", answer=Comparison, summary="Compare policies over runs")
async def compare(
    service: Serves,
    workflow: FromQuery[str],
    until: Until = None,
    max_iterations: MaxIterations = None,
    keep: FromQuery[Keep | None] = None,
    rollback_margin: Margin = None,
    loop: FromQuery[str] = "",
    tag: FromQuery[str | None] = None,
    since: Since = "",
    limit: Limit = 200,
) -> Response[bytes]:
    """Compares policies over the runs of a workflow that have ended; says how many were left out, and why."""
    policies = read_policies(until or (), max_iterations, keep, rollback_margin)
    chosen = RunFilter("ended", workflow, tag=tag, since=moment_of(since, "since"))
    return answer(await compare_policies(service.runtime, chosen, limit, policies, loop))


HANDLERS: Final = (whatif, compare)
