"""Looking at runs: the list, one run, its tree, history, drafts, differences, audit, and the request of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import Response, get
from litestar.params import FromQuery, PathParameter, QueryParameter

from redraft.app.process.times import moment_of
from redraft.app.record.auditing.audit import audit_document, audit_one
from redraft.app.record.changes import compare_drafts
from redraft.app.record.copying.archive import export_jsonl
from redraft.app.record.copying.with_texts import CommandSent, find_command, with_texts
from redraft.app.record.items import tree_with_items
from redraft.app.record.past import drafts_of, events_at, events_of, final_draft
from redraft.app.runs.searching import Found, list_matching
from redraft.app.server.api.answers import answer, beside, computed
from redraft.app.server.api.parameters import At, Limit, RunPath, Since, Until
from redraft.app.server.problems import Refused
from redraft.app.server.service import Serves, Service
from redraft.events.messages.content import Draft
from redraft.events.messages.domain_events import Outcome
from redraft.events.messages.envelope import Recorded
from redraft.projections.read_models.runs_query import (
    RunFilter,
    RunLine,
    RunSort,
    RunStatus,
    find_run,
)
from redraft.projections.run_views.state import StateAt, state_at
from redraft.projections.run_views.tree_model import Tree


class RunPage(msgspec.Struct, frozen=True):
    """A page of the list. `count` is the number of all runs that match; the next page is `after` the run `next`.

    `found` says where runs have the words of a search.
    """

    runs: Sequence[RunLine]
    count: int
    next: str | None = None
    found: Sequence[Found] = ()


@get("/runs", answer=RunPage, summary="List the runs")
async def list_runs(
    service: Serves,
    status: FromQuery[RunStatus | None] = None,
    workflow: FromQuery[str | None] = None,
    outcome: FromQuery[Outcome | None] = None,
    tag: FromQuery[str | None] = None,
    since: Since = "",
    until: Until = "",
    text: Annotated[str, QueryParameter(description="In the first line of the brief, or its file's name.")] = "",
    min_cost: Annotated[float | None, QueryParameter(ge=0)] = None,
    search: Annotated[
        str,
        QueryParameter(max_length=500, description='Words in the brief or a draft: `tides`, `tid*`, `"spring tide"`.'),
    ] = "",
    items: Annotated[
        bool, QueryParameter(description="Also the runs of items; else only if their workflow is named.")
    ] = False,
    of: Annotated[str, QueryParameter(description="Only the runs of this run's items.")] = "",
    sort: FromQuery[RunSort] = "started",
    ascending: FromQuery[bool] = False,
    limit: Limit = 20,
    after: Annotated[str, QueryParameter(description="The next page: the runs that are listed after this one.")] = "",
) -> Response[bytes]:
    """Lists the runs that match every filter given, the newest first unless it is sorted otherwise."""
    times = moment_of(since, "since"), moment_of(until, "until")
    around = (await find_run(service.runtime.views, of)).run if of else ""
    chosen = RunFilter(status, workflow, outcome, tag, *times, text, min_cost, search, items, around)
    return answer(await read_page(service, chosen, limit, after, sort, ascending=ascending))


async def read_page(
    service: Service, chosen: RunFilter, limit: int, after: str, sort: RunSort, *, ascending: bool
) -> RunPage:
    """Returns a page of the list: the runs after the run `after`, or the first. Raises NoSuchRun, InputError."""
    start = await find_run(service.runtime.views, after) if after else None
    found = await list_matching(service.runtime, chosen, limit, start, sort, ascending=ascending)
    following = found.runs[-1].run if len(found.runs) == limit else None
    return RunPage(found.runs, found.count, following, found.found)


@get("/runs/{run:str}", answer=RunLine, summary="Show a run in a line")
async def show_run(service: Serves, run: RunPath) -> Response[bytes]:
    """Shows a run as the list has it. A run is named by its id, the start or end of it, or `last`."""
    found = await with_texts(service.runtime.store, [await find_run(service.runtime.views, run)])
    return answer(found[0])


@get("/runs/{run:str}/tree", answer=Tree, summary="Show a run as a tree")
async def show_tree(service: Serves, run: RunPath, at: At = "") -> Response[bytes]:
    """Shows a run's loops, iterations and steps with scores and times, as it is, or as it stood at a version.

    The runs of its items are inside it.
    """
    events = await events_at(service.runtime, run, at)
    found = await tree_with_items(service.runtime.store, events, cut=bool(at))
    return await computed(lambda: found)


@get("/runs/{run:str}/history", answer=list[Recorded], summary="List a run's events")
async def show_history(service: Serves, run: RunPath, at: At = "") -> Response[bytes]:
    """Lists the events of a run, as recorded, the oldest first."""
    return await computed(list, await events_at(service.runtime, run, at, strange=True))


@get("/runs/{run:str}/state", answer=StateAt, summary="Show a run's state")
async def show_state(service: Serves, run: RunPath, at: At = "") -> Response[bytes]:
    """Shows the values of a run's state, as they are or stood at a version, and each change of them with its author."""
    return await computed(state_at, await events_at(service.runtime, run, at))


@get("/runs/{run:str}/drafts", answer=list[Draft], summary="List a run's drafts")
async def list_drafts(service: Serves, run: RunPath, at: At = "") -> Response[bytes]:
    """Lists the drafts of a run with their texts, in the order in which they were made."""
    drafts = drafts_of(await events_at(service.runtime, run, at))
    return await computed(list, drafts.values())


@get("/runs/{run:str}/drafts/{version:str}", answer=Draft, summary="Show a draft")
async def show_draft(
    service: Serves, run: RunPath, version: Annotated[str, PathParameter(description="Its number, or `final`.")]
) -> Response[bytes]:
    """Shows a draft by its number, or the `final` one: that which the run ended with, or its newest."""
    events = await events_of(service.runtime, run)
    if version == "final":
        return answer(final_draft(events))
    drafts = drafts_of(events)
    number = int(version) if version.isdecimal() and len(version) < len(str(2**63)) else 0
    if number not in drafts:
        known = f"it has drafts 1 to {max(drafts)}" if drafts else "it has none yet"
        raise Refused(404, "no-such-draft", f"run {events[0].run} has no draft {version}; {known}, or name `final`")
    return answer(drafts[number])


@get("/runs/{run:str}/diff", summary="Compare two drafts")
async def diff(service: Serves, run: RunPath, a: FromQuery[int], b: FromQuery[int]) -> Response[bytes]:
    """Shows what changed between the drafts `a` and `b`, word by word, in numbers, and which issues were answered."""
    events = await events_of(service.runtime, run)
    return await computed(lambda: compare_drafts(events, a, b))


@get("/runs/{run:str}/audit", summary="Audit a run")
async def audit_run(service: Serves, run: RunPath, verify: FromQuery[bool] = True) -> Response[bytes]:
    """Tells the whole story of a run and, unless `verify` is false, whether hashes, origin and plan agree."""
    found = await audit_one(service.runtime, run, hashes=verify, origin=verify)
    return await computed(lambda: {**audit_document(found), "fault": found.fault, "fork": found.fork})


@get("/runs/{run:str}/audit.html", summary="The audit page of a run", media_type="text/html")
async def audit_page(service: Serves, run: RunPath) -> Response[bytes]:
    """Gives the page that `redraft audit --export FILE.html` writes, which needs nothing else."""
    from redraft.app.record.auditing.audit_page import render  # Jinja2 takes a while to import

    found = await audit_one(service.runtime, run, hashes=True, origin=True)
    page = await beside(lambda: render(found.events, verified=bool(found.verified)).encode())
    return Response(page, media_type="text/html")


@get("/runs/{run:str}/record.jsonl", summary="The record of a run", media_type="application/jsonl")
async def record_lines(service: Serves, run: RunPath) -> Response[bytes]:
    """Gives the stored events as `redraft audit --export FILE.jsonl` does; it can be checked without Redraft."""
    found = (await find_run(service.runtime.views, run)).run
    rows = await service.runtime.store.raw(found)
    lines = await beside(lambda: "".join(export_jsonl(found, rows)).encode())
    return Response(lines, media_type="application/jsonl")


@get("/runs/{run:str}/request", answer=CommandSent, summary="Show what a worker was given")
async def show_request(
    service: Serves,
    run: RunPath,
    step: Annotated[str, QueryParameter(description="The path of the step, such as Refinement[2]/improve.")],
    attempt: Annotated[int | None, QueryParameter(ge=1, description="Of this attempt; default: the last.")] = None,
    at: At = "",
) -> Response[bytes]:
    """Shows the exact command that the worker of a step was given, made from the log as it was made then."""
    events = await events_at(service.runtime, run, at)
    return answer(await find_command(events, step, attempt, service.runtime.client.history))


HANDLERS: Final = (
    list_runs,
    show_run,
    show_tree,
    show_history,
    show_state,
    list_drafts,
    show_draft,
    diff,
    audit_run,
    audit_page,
    record_lines,
    show_request,
)
