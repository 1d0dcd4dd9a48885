"""`redraft stats`: what runs add up to, by actor, arm of a choice, critic, draft, publication, issue and tree."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeAlias, TypeVar

import msgspec
import typer

from redraft.app.cli.options import JsonOption, StoreOption
from redraft.app.cli.output import out, print_json, print_line, table_of
from redraft.app.cli.reading import ask
from redraft.app.moments import moment_of
from redraft.events.errors import InputError

if TYPE_CHECKING:
    from redraft.app.compose import House
    from redraft.projections.read_models import ReadModels
    from redraft.projections.work import ActorLine

T = TypeVar("T")

APP: Final = typer.Typer(
    help="What runs add up to: the work of actors, choices, what critics said, scores, publications, issues, trees.",
    no_args_is_help=False,
    rich_markup_mode=None,
    epilog="Example: redraft stats actors --since 7d",
)
RunOption: TypeAlias = Annotated[
    str, typer.Argument(metavar="[RUN]", help="Only of this run: its id, the start or end of it, or `last`.")
]
SinceOption: TypeAlias = Annotated[
    str, typer.Option(metavar="TIME", help="Only what is of then or later: 2026-01-03T10:00Z, 7d, 2h.")
]
WorkflowOption: TypeAlias = Annotated[
    str | None, typer.Option("--workflow", help="Only runs of this workflow.", show_default=False)
]


class Asked(msgspec.Struct, frozen=True):
    """Selects one run, those of a workflow, or (both empty) all; those from a time on; at most so many rows."""

    run: str
    since: datetime | None
    workflow: str
    limit: int


class Told(msgspec.Struct, Generic[T], frozen=True):
    """An answer, the names of the columns of its table, and the row that is made of each of its lines."""

    found: Sequence[T]
    names: tuple[str, ...]
    row: Callable[[T], Sequence[object]]


Question: TypeAlias = Callable[["ReadModels", Asked], Awaitable[Told[Any]]]


def _verb(question: Question) -> Question:
    """Makes a verb of a question, with its name and its docstring as the help."""

    def verb(
        run: RunOption = "",
        since: SinceOption = "",
        workflow: WorkflowOption = None,
        store: StoreOption = None,
        json: JsonOption = False,
    ) -> None:
        _tell(question, store, Asked(run, moment_of(since, "--since"), workflow or "", 0), json=json)

    APP.command(question.__name__, help=inspect.getdoc(question))(verb)
    return question


@_verb
async def actors(models: ReadModels, asked: Asked) -> Told[ActorLine]:
    """Returns for each actor the tries asked, done and failed, seconds from request to answer, tokens and cost."""
    from redraft.projections.work import ACTORS, actors

    found = await actors(await models.of(ACTORS), asked.run, asked.since, asked.workflow)
    names = ("role", "actor", "asked", "done", "failed", "unanswered", "mean s", "longest s", "all s", "tokens", "cost")
    return Told(found, names, _actor_row)


def _actor_row(each: ActorLine) -> Sequence[object]:
    kinds = {name: getattr(each, name) for name in ("error", "invalid", "timeout", "lost", "unserved")}
    failed = ", ".join(f"{kind} {count}" for kind, count in kinds.items() if count)
    left = each.open + each.dropped
    cost = f"{each.cost:.4g} {each.currency}".rstrip() if each.cost else ""
    times = ("" if value is None else f"{value:.3g}" for value in (each.mean, each.longest, each.seconds))
    return (each.role, each.actor, each.asked, each.done, failed, left or "", *times, each.tokens or "", cost)


@_verb
async def choices(models: ReadModels, asked: Asked) -> Told[Any]:
    """How the actors did that steps choose among: in how many runs each took part, and how many were accepted."""
    from redraft.projections.choices import CHOICES, arms

    found = await arms(await models.of(CHOICES), asked.run, asked.since, asked.workflow)
    names = ("workflow", "step", "arm", "runs", "accepted", "not accepted", "expected")
    return Told(
        found, names, lambda a: (a.workflow, a.step, a.arm, a.runs, a.successes, a.failures, f"{a.expected:.0%}")
    )


@_verb
async def critics(models: ReadModels, asked: Asked) -> Told[Any]:
    """What each critic said: critiques, scores (0 to 1), verdicts, errors and suggestions; of a run, each critique."""
    from redraft.projections.critiques import CRITIQUES, critics, critiques_of

    views = await models.of(CRITIQUES)
    verdicts = {True: "approved", False: "refused", None: ""}
    if run := _in_full(asked):
        return Told(
            await critiques_of(views, run),
            ("version", "critic", "draft", "score", "verdict", "errors", "suggestions", "path"),
            lambda c: (
                (c.version, c.critic, c.draft, _score(c.score), verdicts[c.approved], c.errors, c.suggestions, c.path)
            ),
        )
    return Told(
        await critics(views, asked.since, asked.workflow),
        ("critic", "critiques", "runs", "mean", "lowest", "highest", "approved", "refused", "errors", "suggestions"),
        lambda c: (
            *(c.critic, c.critiques, c.runs, *map(_score, (c.mean, c.lowest, c.highest))),
            *(c.approved, c.refused, c.errors, c.suggestions),
        ),
    )


@_verb
async def scores(models: ReadModels, asked: Asked) -> Told[Any]:
    """The scores (0 to 1) of a run's drafts, or how first, second and later drafts are scored in all runs."""
    from redraft.projections.score_series import SCORES, course, series

    views = await models.of(SCORES)
    if run := _in_full(asked):
        found = await series(views, run)
        return Told(
            found, ("draft", "score", "critics", "in"), lambda s: (s.draft, _score(s.score), s.critics, s.within)
        )
    return Told(
        await course(views, asked.since, asked.workflow),
        ("draft", "runs", "mean", "lowest", "highest"),
        lambda c: (c.draft, c.runs, *map(_score, (c.mean, c.lowest, c.highest))),
    )


@APP.command("publications")
def publications(
    run: RunOption = "",
    since: SinceOption = "",
    workflow: WorkflowOption = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 20,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """What was published, the latest first: when (UTC), which draft of which run, and where it is."""
    _tell(_publications, store, Asked(run, moment_of(since, "--since"), workflow or "", limit), json=json)


async def _publications(models: ReadModels, asked: Asked) -> Told[Any]:
    from redraft.projections.publications import PUBLICATIONS, publications

    views = await models.of(PUBLICATIONS)
    return Told(
        await publications(views, asked.run, asked.since, asked.limit, asked.workflow),
        ("published (UTC)", "run", "draft", "location", "note"),
        lambda p: (f"{p.time:%Y-%m-%d %H:%M}", p.run, p.draft, p.location, p.note),
    )


@_verb
async def issues(models: ReadModels, asked: Asked) -> Told[Any]:
    """What critics asked for, what became of it, and what came back: issue by issue of a run, or counted by critic."""
    from redraft.projections.issues import ISSUES, issue_counts, issues_of

    views = await models.of(ISSUES)
    if run := _in_full(asked):
        return Told(
            await issues_of(views, run),
            ("status", "kind", "raised in", "fixed in", "came back", "critic", "text"),
            lambda i: (i.status, i.kind, i.first, i.fixed or "", i.returns or "", i.critic, i.text),
        )
    return Told(
        await issue_counts(views, asked.since, asked.workflow),
        ("critic", "kind", "raised", "fixed", "open", "came back", "runs"),
        lambda i: (i.critic, i.kind, i.raised, i.fixed, i.open, i.returned, i.runs),
    )


@_verb
async def tree(models: ReadModels, asked: Asked) -> Told[Any]:
    """Every loop, pass, panel, step and approval of a run, or of all: how it stands, its score, draft and outcome."""
    from redraft.projections.tree_nodes import TREE, tree_nodes

    return Told(
        await tree_nodes(await models.of(TREE), asked.run, asked.since, asked.workflow),
        ("run", "path", "kind", "status", "outcome", "actor", "draft", "score"),
        lambda n: (n.run, n.path, n.kind, n.status, n.outcome, n.actor, n.draft or "", _score(n.score)),
    )


def _in_full(asked: Asked) -> str:
    """Returns the run that is asked about, empty for all. Raises InputError for a time beside it."""
    if asked.run and asked.since:
        raise InputError(f"--since is for many runs, and {asked.run} is told in full; leave one out")
    return asked.run


def _tell(question: Question, store: str | None, asked: Asked, *, json: bool) -> None:
    """Prints the answer of read models that are up to date. Raises NoSuchRun for a run that there is not."""
    from redraft.app.with_texts import with_texts
    from redraft.projections.run_list import find_run

    if asked.run and asked.workflow:
        raise InputError(f"--workflow {asked.workflow} is for all its runs, and {asked.run} is one; leave one out")

    async def answer(log: House) -> Told[Any]:
        run = (await find_run(log.views, asked.run)).run if asked.run else ""
        told = await question(log.models, msgspec.structs.replace(asked, run=run))
        return msgspec.structs.replace(told, found=await with_texts(log.store, told.found))

    told = ask(store, answer)
    if json:
        print_json(told.found)
    elif told.found:
        out().print(table_of(told.names, map(told.row, told.found)))
    else:
        print_line("nothing yet")


def _score(score: float | None) -> str:
    from redraft.projections.plain import score_text

    return "" if score is None else score_text(score)
