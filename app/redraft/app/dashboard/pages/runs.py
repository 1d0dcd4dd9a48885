"""The runs: a live list, with filters in its address, pages, and words to several runs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from redraft.app.dashboard.visit import Visit, Visits, page
from redraft.app.process.times import moment_of
from redraft.app.server.api.bodies import Reason
from redraft.app.server.api.run_reading import read_page
from redraft.app.server.words import PLAIN, PlainWord, say
from redraft.events.errors import InputError, RedraftError
from redraft.events.messages.domain_events import Outcome
from redraft.projections.display import quoted
from redraft.projections.read_models.runs_query import RunFilter, RunLine, RunSort, RunStatus, find_run

SHOWN: Final = 50
"""Rows of a page of the list."""

AT_ONCE: Final = 200
"""The most runs that a word can be said to at once."""


class RunChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """The query parameters of the list, named as in the API and, with hyphens, as the options of `redraft list`."""

    status: RunStatus | None = None
    workflow: str = ""
    outcome: Outcome | None = None
    tag: str = ""
    since: str = ""
    until: str = ""
    text: str = ""
    min_cost: Annotated[float, msgspec.Meta(ge=0)] | None = None
    items: bool = False
    of: str = ""
    sort: RunSort = "started"
    ascending: bool = False
    after: str = ""

    def filter(self, of: str = "") -> RunFilter:
        """Returns it for the query; `of` is the id of `self.of`. Raises InputError for a time that is none."""
        times = moment_of(self.since, "since"), moment_of(self.until, "until")
        return RunFilter(
            self.status,
            self.workflow or None,
            self.outcome,
            self.tag or None,
            *times,
            self.text,
            self.min_cost,
            items=self.items,
            of=of,
        )

    @property
    def command(self) -> str:
        """The command line that shows the same runs."""
        given = {name: value for name, value in msgspec.to_builtins(self).items() if name != "after"}
        flags = [
            f"--{name.replace('_', '-')}" + ("" if value is True else f" {quoted(str(value))}")
            for name, value in given.items()
        ]
        return " ".join(("redraft list", *flags))

    def address(self, **changes: object) -> str:
        """Returns the address of the list with these changes."""
        given = {**msgspec.to_builtins(self), **changes}
        return "/runs" + (f"?{urlencode(given)}" if given else "")


class RunsShown(msgspec.Struct, frozen=True):
    """A page of the list; `next` is the address of the one after it."""

    choice: RunChoice
    runs: Sequence[RunLine]
    count: int
    next: str
    workflows: Sequence[str]


@page("/runs")
async def list_runs(visit: Visits) -> Response[Any]:
    """Shows the list of runs, as it is now."""
    choice = visit.query(RunChoice)

    async def make() -> RunsShown:
        chosen = choice.filter((await find_run(visit.service.runtime.views, choice.of)).run if choice.of else "")
        found = await read_page(visit.service, chosen, SHOWN, choice.after, choice.sort, ascending=choice.ascending)
        following = choice.address(after=found.next) if found.next else ""
        return RunsShown(choice, found.runs, found.count, following, list(visit.service.offers.workflows))

    return await visit.show("runs", "Runs", make)


@get("/")
async def first_page(visit: Visits) -> Response[Any]:
    """Leads to the runs."""
    return visit.go("/runs")


@post("/runs/chosen/{word:str}", status_code=200)
async def steer_runs(visit: Visits, word: FromPath[PlainWord]) -> Response[Any]:
    """Says a word to each of the runs that were chosen; answers with what came of it."""
    form = await visit.request.form()
    runs = list(dict.fromkeys(str(each) for each in form.getall("run", [])))
    if not runs:
        raise InputError("no run is chosen; tick those that are meant")
    if len(runs) > AT_ONCE:
        raise InputError(f"{len(runs)} runs are chosen; choose at most {AT_ONCE} at once")
    faults = [fault for run in runs if (fault := await _fault(visit, run, word))]
    return visit.tell("runs_said.html", word=_PAST[word], done=len(runs) - len(faults), faults=faults)


async def _fault(visit: Visit, run: str, word: PlainWord) -> str:
    """Says it to one run; returns why that was not possible, or nothing."""
    try:
        await say(visit.service, visit.identity, run, PLAIN[word](visit.identity, Reason()))
    except RedraftError as error:
        return str(error)
    return ""


_PAST: Final[Mapping[PlainWord, str]] = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}

PAGES: Final = (first_page, list_runs)
FORMS: Final = (steer_runs,)
