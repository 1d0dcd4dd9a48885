"""`redraft stats`: what runs add up to, by actor, arm of a choice, critic, draft, publication, issue and tree."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

import msgspec
import typer

from redraft.app.cli.shared.options import JsonOption, StoreOption, refuse_beyond, with_options
from redraft.app.cli.shared.output import print_json, print_line
from redraft.app.cli.shared.reading import ask
from redraft.app.cli.shared.tables import print_table
from redraft.app.process.times import moment_of
from redraft.app.runs.by_http import with_workers
from redraft.app.settings.settings import read_settings
from redraft.app.wiring.local import LocalRuntime
from redraft.events.backends import read_http_workers
from redraft.events.errors import InputError
from redraft.events.messages.content import number_text
from redraft.events.messages.scales import read_scale, score_text
from redraft.projections.backends import ReadModels
from redraft.projections.display import cost_text
from redraft.projections.read_models import actor_work, critiques
from redraft.projections.read_models import publications as published
from redraft.projections.read_models import scores as of_scores
from redraft.projections.read_models.choices import CHOICES, arms
from redraft.projections.read_models.issues import ISSUES, issue_counts, issues_of
from redraft.projections.read_models.runs_query import find_run
from redraft.projections.read_models.tree_nodes import TREE, tree_nodes

T = TypeVar("T")

APP: Final = typer.Typer(
    help="Show figures over runs: what actors did, what it cost, how critics score, what became of issues.",
    epilog="Example: redraft stats actors --since 7d",
)


class StatsOptions(msgspec.Struct, frozen=True):
    """The options of every verb of `redraft stats`."""

    run: Annotated[
        str, typer.Argument(metavar="[RUN]", help="Only of this run: its id, the start or end of it, or `last`.")
    ] = ""
    since: Annotated[
        str,
        typer.Option(metavar="TIME", help="Only what was recorded at this time or later: 2026-01-03T10:00Z, 7d, 2h."),
    ] = ""
    workflow: Annotated[str | None, typer.Option("--workflow", help="Only runs of this workflow.")] = None
    store: StoreOption = None
    json: JsonOption = False


LimitOption: TypeAlias = Annotated[
    int, typer.Option(callback=refuse_beyond, metavar="N", help="Print at most N.", min=1)
]


class Selection(msgspec.Struct, frozen=True):
    """Selects one run, those of a workflow, or (both empty) all; those from a time on; at most `limit` rows."""

    run: str
    since: datetime | None
    workflow: str
    limit: int


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """An answer, the names of the columns of its table, and the row that is made of each of its lines."""

    found: Sequence[T]
    names: tuple[str, ...]
    row: Callable[[T], Sequence[object]]


Question: TypeAlias = Callable[["ReadModels", Selection], Awaitable[Answer[Any]]]


def verb(example: str) -> Callable[[Question], Question]:
    """Makes a verb of a question, with its name, its docstring as the help, and the words of its example."""

    def add(question: Question) -> Question:
        def ask_and_print(given: StatsOptions) -> None:
            print_answer(question, given)

        name = question.__name__
        epilog = f"Example: redraft stats {name} {example}"
        APP.command(name, help=inspect.getdoc(question), epilog=epilog)(with_options(ask_and_print))
        return question

    return add


@APP.command("actors", epilog="Example: redraft stats actors --since 7d")
@with_options
def actors(given: StatsOptions) -> None:
    """Show for each actor the attempts asked for, done and failed, seconds from request to answer, tokens and cost.

    The last column names those who work for it by HTTP now, at any server of the store.
    """

    async def asked(models: ReadModels, selected: Selection) -> Answer[dict[str, Any]]:
        views = await models.of(actor_work.ACTORS)
        found = await actor_work.actors(views, selected.run, selected.since, selected.workflow)
        present = await read_http_workers(read_settings(store=given.store).store)
        return Answer(with_workers(found, present), _ACTOR_COLUMNS, _actor_row)

    print_answer(asked, given)


_ACTOR_COLUMNS: Final = (
    *("role", "actor", "asked", "done", "reused", "skipped", "failed", "unanswered"),
    *("mean s", "longest s", "all s", "tokens", "cost", "by HTTP"),
)


def _actor_row(each: Mapping[str, Any]) -> Sequence[object]:
    kinds = ("error", "invalid", "timeout", "lost", "unserved")
    failed = ", ".join(f"{kind} {each[kind]}" for kind in kinds if each[kind])
    left = each["open"] + each["dropped"]
    cost = cost_text(each["cost"], each["currency"], each["unpriced"])
    times = ("" if each[name] is None else f"{each[name]:.3g}" for name in ("mean", "longest", "seconds"))
    counts = (each["asked"], each["done"], each["reused"] or "", each["skipped"] or "", failed, left or "")
    present = ", ".join(one.who for one in each["by_http"])
    return each["role"], each["actor"], *counts, *times, each["tokens"] or "", cost, present


@verb("--workflow article")
async def choices(models: ReadModels, selected: Selection) -> Answer[Any]:
    """Show the actors that steps choose among: the runs that each took part in, and how many were accepted."""
    found = await arms(await models.of(CHOICES), selected.run, selected.since, selected.workflow)
    names = ("workflow", "step", "arm", "runs", "accepted", "not accepted", "expected")
    return Answer(
        found, names, lambda a: (a.workflow, a.step, a.arm, a.runs, a.successes, a.failures, f"{a.expected:.0%}")
    )


@verb("last")
async def critics(models: ReadModels, selected: Selection) -> Answer[Any]:
    """Show each critic: critiques, scores, verdicts, errors and suggestions; of a run, each critique."""
    views = await models.of(critiques.CRITIQUES)
    verdicts = {True: "approved", False: "refused", None: ""}
    if run := _in_full(selected):
        return Answer(
            await critiques.critiques_of(views, run),
            (
                "version",
                "critic",
                "draft",
                "score",
                "criteria and measures",
                "verdict",
                "errors",
                "suggestions",
                "path",
            ),
            lambda c: (
                *(c.version, c.critic, c.draft, *compared(c.scale, c.score), c.marks),
                *(verdicts[c.approved], c.errors, c.suggestions, c.path),
            ),
        )
    return Answer(
        await critiques.critics(views, selected.since, selected.workflow),
        ("critic", "critiques", "runs", "mean", "lowest", "highest", "approved", "refused", "errors", "suggestions"),
        lambda c: (
            *(c.critic, c.critiques, c.runs, *compared(c.scale, c.mean, c.lowest, c.highest)),
            *(c.approved, c.refused, c.errors, c.suggestions),
        ),
    )


@verb("last")
async def criteria(models: ReadModels, selected: Selection) -> Answer[Any]:
    """Show each criterion of each critic: how often it was judged, and its scores; of a run, each score."""
    views = await models.of(critiques.CRITIQUES)
    if run := _in_full(selected):
        return Answer(
            await critiques.criteria_of(views, run),
            ("version", "critic", "criterion", "draft", "score", "confidence", "path"),
            lambda c: (
                *(c.version, c.critic, c.criterion, c.draft, *compared(c.scale, c.score), _score(c.confidence, None)),
                c.path,
            ),
        )
    return Answer(
        await critiques.criteria(views, selected.since, selected.workflow),
        ("critic", "criterion", "critiques", "runs", "mean", "lowest", "highest", "confidence"),
        lambda c: (
            *(c.critic, c.criterion, c.critiques, c.runs, *compared(c.scale, c.mean, c.lowest, c.highest)),
            _score(c.confidence, None),
        ),
    )


@verb("last")
async def measures(models: ReadModels, selected: Selection) -> Answer[Any]:
    """Show each measure of each critic: how often it was counted, and its numbers; of a run, each number."""
    views = await models.of(critiques.CRITIQUES)
    if run := _in_full(selected):
        return Answer(
            await critiques.measures_of(views, run),
            ("version", "critic", "measure", "draft", "number", "path"),
            lambda m: (m.version, m.critic, m.measure, m.draft, number_text(m.value), m.path),
        )
    return Answer(
        await critiques.measures(views, selected.since, selected.workflow),
        ("critic", "measure", "critiques", "runs", "mean", "lowest", "highest"),
        lambda m: (m.critic, m.measure, m.critiques, m.runs, *map(number_text, (m.mean, m.lowest, m.highest))),
    )


@verb("last")
async def scores(models: ReadModels, selected: Selection) -> Answer[Any]:
    """Show the scores of a run's drafts, or how first, second and later drafts are scored in all runs."""
    views = await models.of(of_scores.SCORES)
    if run := _in_full(selected):
        found = await of_scores.series(views, run)
        return Answer(
            found,
            ("draft", "score", "critics", "in"),
            lambda s: (s.draft, _score(s.score, s.scale), s.critics, s.within),
        )
    return Answer(
        await of_scores.course(views, selected.since, selected.workflow),
        ("draft", "runs", "mean", "lowest", "highest"),
        lambda c: (c.draft, c.runs, *compared(c.scale, c.mean, c.lowest, c.highest)),
    )


@APP.command("publications", epilog="Example: redraft stats publications --limit 5")
@with_options
def publications(
    given: StatsOptions,
    limit: LimitOption = 20,
) -> None:
    """Show publications, the latest first: the time (UTC), the draft of a run, and where it is."""
    print_answer(_publications, given, limit)


async def _publications(models: ReadModels, selected: Selection) -> Answer[Any]:
    views = await models.of(published.PUBLICATIONS)
    return Answer(
        await published.publications(views, selected.run, selected.since, selected.limit, selected.workflow),
        ("published (UTC)", "run", "draft", "location", "note"),
        lambda p: (f"{p.time:%Y-%m-%d %H:%M}", p.run, p.draft, p.location, p.note),
    )


@verb("last")
async def issues(models: ReadModels, selected: Selection) -> Answer[Any]:
    """Show the issues of critics, what became of them, and which came back: of a run, or counted by critic."""
    views = await models.of(ISSUES)
    if run := _in_full(selected):
        return Answer(
            await issues_of(views, run),
            ("status", "kind", "raised in", "answered in", "fixed in", "came back", "declined in", "critic", "text"),
            lambda i: (
                *(i.status, i.severity or i.kind, i.first, i.answered or "", i.fixed or "", i.returns or ""),
                *(i.declined or "", i.critic, f"{i.text} (declined: {i.why})" if i.why else i.text),
            ),
        )
    return Answer(
        await issue_counts(views, selected.since, selected.workflow),
        ("critic", "kind", "raised", "fixed", "open", "came back", "declined", "runs"),
        lambda i: (i.critic, i.kind, i.raised, i.fixed, i.open, i.returned, i.declined, i.runs),
    )


@APP.command("tree", epilog="Example: redraft stats tree last --limit 50")
@with_options
def tree(given: StatsOptions, limit: LimitOption = 200) -> None:
    """Show every loop, iteration, panel, step and approval of a run, or those of the newest runs.

    For each: its path, its kind, status, score, draft and outcome.
    """
    print_answer(_tree, given, limit)


async def _tree(models: ReadModels, selected: Selection) -> Answer[Any]:
    return Answer(
        await tree_nodes(
            await models.of(TREE), selected.run, selected.since, selected.workflow, limit=selected.limit or None
        ),
        ("run", "path", "kind", "status", "outcome", "actor", "draft", "score"),
        lambda n: (n.run, n.path, n.kind, n.status, n.outcome, n.actor, n.draft or "", *compared(n.scale, n.score)),
    )


def _in_full(selected: Selection) -> str:
    """Returns the run that is selected, empty for all. Raises InputError for a time beside it."""
    if selected.run and selected.since:
        raise InputError(f"--since selects among many runs, but one run was named, {selected.run}; leave one out")
    return selected.run


def print_answer(question: Question, given: StatsOptions, limit: int = 0) -> None:
    """Prints the answer of read models that are up to date. Raises NoSuchRun for a run that there is not."""
    from redraft.app.record.copying.with_texts import with_texts

    if given.run and given.workflow:
        raise InputError(
            f"--workflow selects all runs of {given.workflow}, but one run was named, {given.run}; leave one out"
        )
    since = moment_of(given.since, "--since")

    async def read(log: LocalRuntime) -> Answer[Any]:
        run = (await find_run(log.views, given.run)).run if given.run else ""
        answer = await question(log.models, Selection(run, since, given.workflow or "", limit))
        return msgspec.structs.replace(answer, found=await with_texts(log.store, answer.found))

    answer = ask(given.store, read)
    if given.json:
        print_json(answer.found)
    elif answer.found:
        print_table(answer.names, map(answer.row, answer.found))
    else:
        print_line("nothing yet")


def _score(score: float | None, scale: str | None) -> str:
    return "" if score is None else score_text(score, read_scale(scale))


def compared(scale: str | None, *scores: float | None) -> list[str]:
    """Returns scores on their scale, with their shares of it beside: scales differ from critic to critic."""
    return ["" if score is None else score_text(score, read_scale(scale), beside=True) for score in scores]
