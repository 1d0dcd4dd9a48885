"""Figures over runs, read models, actors and who serves them, and the archive."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import IO, Annotated, Any, Final, Literal, TypeAlias

import msgspec
from litestar import Response, get
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Stream

from redraft.app.process.times import moment_of
from redraft.app.record.copying.transfer import RunSelection, export_log
from redraft.app.record.copying.with_texts import with_texts
from redraft.app.runs.by_http import with_workers
from redraft.app.server.api.answers import answer
from redraft.app.server.api.parameters import Limit, Since
from redraft.app.server.problems import Refused
from redraft.app.server.service import Serves, Service
from redraft.app.workflows.actor_registry import projections_for
from redraft.events.bus.port import work_queue
from redraft.events.errors import BusUnusable, InputError
from redraft.events.messages.plan import Role
from redraft.events.presence import Presence
from redraft.projections.backends import ReadModels
from redraft.projections.read_models import actor_work, costs, critiques
from redraft.projections.read_models import agreement as of_critics
from redraft.projections.read_models import publications as published
from redraft.projections.read_models import scores as of_scores
from redraft.projections.read_models.choices import CHOICES, arms
from redraft.projections.read_models.issues import ISSUES, issue_counts, issues_of, recurring_issues
from redraft.projections.read_models.lessons import known_lessons
from redraft.projections.read_models.runs_query import find_run
from redraft.projections.read_models.tree_nodes import TREE, tree_nodes

Figures: TypeAlias = Literal[
    "actors",
    "agreement",
    "budgets",
    "choices",
    "costs",
    "criteria",
    "critics",
    "distributions",
    "drift",
    "issues",
    "lessons",
    "measures",
    "people",
    "publications",
    "recurring",
    "scores",
    "tree",
]
OfRuns: TypeAlias = Literal["choices", "criteria", "critics", "issues", "measures", "publications", "scores", "tree"]
"""The figures over many runs, or of one, beside `actors`."""

OverRuns: TypeAlias = Literal["agreement", "budgets", "distributions", "drift", "lessons", "people", "recurring"]
"""The figures that are not those of one run, beside `costs`."""

_CHUNK: Final = 256 * 1024


class ActorSeen(msgspec.Struct, frozen=True):
    """An actor that runs have asked, and what it did. `consumers` serve it now, and `waiting` requests are queued.

    Both are None where that cannot be known: nothing runs here, or it has no queue. `by_http` work by leases of a
    server of this store.
    """

    role: Role
    actor: str
    consumers: int | None
    waiting: int | None
    work: actor_work.ActorLine
    by_http: Sequence[Presence] = ()


@get("/stats/{figures:str}", summary="Figures over runs")
async def show_stats(
    service: Serves,
    figures: FromPath[Figures],
    run: Annotated[str, QueryParameter(description="Only of this run.")] = "",
    since: Since = "",
    workflow: FromQuery[str] = "",
    by: Annotated[costs.CostBy, QueryParameter(description="What `costs` are summed by.")] = "day",
    limit: Limit = 200,
) -> Response[bytes]:
    """Gives the figures of `redraft stats`: over all runs, over those of a workflow, or, of some, of one run."""
    if run and (since or workflow):
        raise InputError("run names one run: leave out since and workflow, which select among many")
    chosen = (await find_run(service.runtime.views, run)).run if run else ""
    models, start = service.runtime.models, moment_of(since, "since")
    found: Sequence[Any]
    match figures:
        case "costs" | "agreement" | "budgets" | "distributions" | "drift" | "lessons" | "people" | "recurring" if run:
            raise InputError(f"{figures} are figures over many runs: leave out run")
        case "costs":
            found = await costs.costs(await models.of(actor_work.ACTORS), by, start, workflow, limit)
        case "agreement" | "budgets" | "distributions" | "drift" | "lessons" | "people" | "recurring":
            found = await _over_runs(models, figures, start, workflow, limit)
        case "actors":
            lines = await actor_work.actors(await models.of(actor_work.ACTORS), chosen, start, workflow)
            found = with_workers(lines, await service.working.present())
        case _:
            found = await _figures(models, figures, chosen, start, workflow, limit)
    return answer(await with_texts(service.runtime.store, found))


async def _figures(
    models: ReadModels, figures: OfRuns, run: str, since: datetime | None, workflow: str, limit: int
) -> Sequence[Any]:
    match figures:
        case "choices":
            return await arms(await models.of(CHOICES), run, since, workflow)
        case "critics":
            views = await models.of(critiques.CRITIQUES)
            return await (critiques.critiques_of(views, run) if run else critiques.critics(views, since, workflow))
        case "criteria":
            views = await models.of(critiques.CRITIQUES)
            return await (critiques.criteria_of(views, run) if run else critiques.criteria(views, since, workflow))
        case "measures":
            views = await models.of(critiques.CRITIQUES)
            return await (critiques.measures_of(views, run) if run else critiques.measures(views, since, workflow))
        case "scores":
            views = await models.of(of_scores.SCORES)
            return await (of_scores.series(views, run) if run else of_scores.course(views, since, workflow))
        case "publications":
            views = await models.of(published.PUBLICATIONS)
            return await published.publications(views, run, since, limit, workflow)
        case "issues":
            views = await models.of(ISSUES)
            return await (issues_of(views, run) if run else issue_counts(views, since, workflow))
        case "tree":
            return await tree_nodes(await models.of(TREE), run, since, workflow, limit=limit)


async def _over_runs(
    models: ReadModels, figures: OverRuns, since: datetime | None, workflow: str, limit: int
) -> Sequence[Any]:
    match figures:
        case "recurring":
            return await recurring_issues(await models.of(ISSUES), since, workflow, limit)
        case "lessons":
            if since:
                raise InputError("lessons are those of all ended runs: leave out since")
            return await known_lessons(await models.of(ISSUES), workflow, limit)
        case "budgets":
            return await costs.budgets(await models.of(costs.BUDGETS), since, workflow, limit)
        case "agreement":
            return await of_critics.agreement(await models.of(critiques.CRITIQUES), since, workflow)
        case "distributions":
            return await of_critics.distributions(await models.of(critiques.CRITIQUES), since, workflow)
        case "drift":
            return await of_critics.drift(await models.of(critiques.CRITIQUES), since, workflow)
        case "people":
            return await of_critics.with_people(await models.of(critiques.CRITIQUES), since, workflow)


@get("/actors", answer=list[ActorSeen], summary="List the actors, and who serves them")
async def list_actors(service: Serves, since: Since = "", workflow: FromQuery[str] = "") -> Response[bytes]:
    """Lists the actors that runs have asked, with what they did, and how many workers serve each now."""
    return answer(await read_actors(service, moment_of(since, "since"), workflow))


async def read_actors(service: Service, since: datetime | None, workflow: str) -> list[ActorSeen]:
    """Returns the actors that runs have asked since a time, of a workflow's runs or of all, and who serves them."""
    lines = await actor_work.actors(await service.runtime.models.of(actor_work.ACTORS), "", since, workflow)
    present = await service.working.present()
    return [await _seen(service, each, present.get((each.role, each.actor), ())) for each in lines]


async def _seen(service: Service, line: actor_work.ActorLine, present: Sequence[Presence]) -> ActorSeen:
    depth = None
    with suppress(BusUnusable):  # one that cannot be looked at
        depth = await service.queues.queue(work_queue(line.role, line.actor)) if service.queues else None
    consumers, waiting = (depth.consumers, depth.waiting) if depth else (None, None)
    return ActorSeen(line.role, line.actor, consumers, waiting, line, present)


@get("/projections", summary="List the read models")
async def list_projections(service: Serves) -> Response[bytes]:
    """Lists the read models: version, position, how many events behind, rows, and whether one has stopped."""
    head, states = await service.runtime.store.head(), await service.runtime.views.states()
    return answer([{"behind": max(head - each.position, 0), **msgspec.structs.asdict(each)} for each in states])


@get("/projections/{name:str}", summary="Show the rows of a read model")
async def show_projection(service: Serves, name: FromPath[str], limit: Limit = 50) -> Response[bytes]:
    """Shows the rows of a shipped read model, brought up to date first, in the order of their keys."""
    if ":" in name or name.endswith(".py"):
        raise Refused(404, "no-such-projection", "only read models that ship with Redraft are shown here")
    found = {}
    for projection in projections_for(name):
        for table in projection.tables:
            rows = await service.runtime.models.rows(projection, table, limit)
            found[table.name] = [dict(zip(table.columns, row, strict=True)) for row in rows]
    return answer(found)


@get("/workflows", summary="List the workflows that may be submitted")
async def list_workflows(service: Serves) -> Response[bytes]:
    """Lists the workflows that this server submits, with their plans."""
    return answer([{"name": name, "plan": source.plan} for name, source in service.offers.workflows.items()])


@get("/archive", summary="Download runs as an archive", media_type="application/zstd")
async def download_archive(
    service: Serves,
    run: Annotated[
        list[str] | None, QueryParameter(description="Only this run, with the runs of its items; may be repeated.")
    ] = None,
    without: Annotated[
        list[str] | None, QueryParameter(description="All but this run and those of its items; may be repeated.")
    ] = None,
    since: Since = "",
) -> Stream:
    """Gives the archive that `redraft export` writes: whole runs, each event verified as it is written."""
    views, store = service.runtime.views, service.runtime.store
    chosen = frozenset([(await find_run(views, each)).run for each in run or ()])
    left = frozenset([(await find_run(views, each)).run for each in without or ()])
    file = await asyncio.to_thread(tempfile.TemporaryFile)
    try:
        await export_log(store, RunSelection(moment_of(since, "since"), chosen, left), file, datetime.now(UTC))
    except BaseException:
        file.close()
        raise
    name = {"Content-Disposition": 'attachment; filename="runs.jsonl.zst"'}
    return Stream(_chunks(file), media_type="application/zstd", headers=name)


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Yields a file that was written, and closes it."""
    try:
        file.seek(0)
        while chunk := await asyncio.to_thread(file.read, _CHUNK):
            yield chunk
    finally:
        file.close()


HANDLERS: Final = (
    show_stats,
    list_actors,
    list_projections,
    show_projection,
    list_workflows,
    download_archive,
)
