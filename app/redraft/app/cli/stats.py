"""`redraft stats`: what runs add up to, by actor, arm of a choice, critic, draft, publication, issue and tree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypeVar

import msgspec
import typer

from redraft.app.cli.options import JsonOption, StoreOption
from redraft.app.cli.output import out, print_json, print_line
from redraft.app.cli.reading import ask
from redraft.app.moments import moment
from redraft.events.errors import InputError

if TYPE_CHECKING:
    from redraft.app.compose import House
    from redraft.projections.critiques import Critic
    from redraft.projections.projection import Projection
    from redraft.projections.views import Views

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
Question: TypeAlias = Callable[["Views", str], Awaitable[T]]
"""What is asked of rows, of the run with this id or, where it is empty, of all."""

WorkflowOption: TypeAlias = Annotated[
    str | None, typer.Option("--workflow", help="Only runs of this workflow.", show_default=False)
]


class Chosen(msgspec.Struct, frozen=True):
    """The runs that are told of, as a person names them: one run, those of a workflow, or (both empty) all."""

    run: str
    workflow: str


@APP.command("actors")
def actors(
    run: RunOption = "",
    since: SinceOption = "",
    workflow: WorkflowOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """What each actor did: tries asked, done and failed, seconds from request to answer, tokens and cost."""
    from redraft.projections.work import ACTORS, ActorLine, actors

    then, chosen = _moment(since), Chosen(run, workflow or "")
    found = _asked(store, chosen, ACTORS, lambda views, one: actors(views, one, then, chosen.workflow))
    if json:
        print_json(found)
        return

    def row(each: ActorLine) -> Sequence[object]:
        kinds = {"error": each.error, "invalid": each.invalid, "timeout": each.timeout, "lost": each.lost}
        failed = ", ".join(f"{kind} {count}" for kind, count in kinds.items() if count)
        left = each.open + each.dropped
        cost = f"{each.cost:.4g} {each.currency}".rstrip() if each.cost else ""
        times = _seconds(each.mean), _seconds(each.longest), _seconds(each.seconds)
        return (each.role, each.actor, each.asked, each.done, failed, left or "", *times, each.tokens or "", cost)

    names = ("role", "actor", "asked", "done", "failed", "unanswered", "mean s", "longest s", "all s", "tokens", "cost")
    _table(names, map(row, found))


@APP.command("choices")
def choices(
    run: RunOption = "",
    since: SinceOption = "",
    workflow: WorkflowOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """How the actors did that steps choose among: in how many runs each took part, and how many were accepted."""
    from redraft.projections.choices import CHOICES, arms

    then, chosen = _moment(since), Chosen(run, workflow or "")
    found = _asked(store, chosen, CHOICES, lambda views, one: arms(views, one, then, chosen.workflow))
    if json:
        print_json(found)
        return
    rows = ((a.workflow, a.step, a.arm, a.runs, a.successes, a.failures, f"{a.expected:.0%}") for a in found)
    _table(("workflow", "step", "arm", "runs", "accepted", "not accepted", "expected"), rows)


@APP.command("critics")
def critics(
    run: RunOption = "",
    since: SinceOption = "",
    workflow: WorkflowOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """What each critic said: critiques, scores (0 to 1), verdicts, errors and suggestions; of a run, each critique."""
    from redraft.projections.critiques import CRITIQUES, critics, critiques_of

    then, chosen = _moment(since), Chosen(run, workflow or "")
    if run:
        said = _asked(store, chosen, CRITIQUES, critiques_of)
        if json:
            print_json(said)
            return
        _table(
            ("version", "critic", "draft", "score", "verdict", "errors", "suggestions", "path"),
            (
                (c.version, c.critic, c.draft, _score(c.score), _verdict(c.approved), c.errors, c.suggestions, c.path)
                for c in said
            ),
        )
        return
    found = _asked(store, chosen, CRITIQUES, lambda views, _: critics(views, then, chosen.workflow))
    if json:
        print_json(found)
        return
    names = ("critic", "critiques", "runs", "mean", "lowest", "highest", "approved", "refused", "errors", "suggestions")
    _table(
        names,
        ((c.critic, c.critiques, c.runs, *map(_score, (c.mean, c.lowest, c.highest)), *_verdicts(c)) for c in found),
    )


@APP.command("scores")
def scores(
    run: RunOption = "",
    since: SinceOption = "",
    workflow: WorkflowOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """The scores (0 to 1) of a run's drafts, or how first, second and later drafts are scored in all runs."""
    from redraft.projections.score_series import SCORES, course, series

    then, chosen = _moment(since), Chosen(run, workflow or "")
    if run:
        told = _asked(store, chosen, SCORES, series)
        if json:
            print_json(told)
        else:
            _table(("draft", "score", "critics", "in"), ((s.draft, _score(s.score), s.critics, s.within) for s in told))
        return
    found = _asked(store, chosen, SCORES, lambda views, _: course(views, then, chosen.workflow))
    if json:
        print_json(found)
    else:
        rows = ((c.draft, c.runs, _score(c.mean), _score(c.lowest), _score(c.highest)) for c in found)
        _table(("draft", "runs", "mean", "lowest", "highest"), rows)


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
    from redraft.projections.publications import PUBLICATIONS, publications

    then, chosen = _moment(since), Chosen(run, workflow or "")
    found = _asked(
        store, chosen, PUBLICATIONS, lambda views, one: publications(views, one, then, limit, chosen.workflow)
    )
    if json:
        print_json(found)
    else:
        rows = ((f"{p.time:%Y-%m-%d %H:%M}", p.run, p.draft, p.location, p.note) for p in found)
        _table(("published (UTC)", "run", "draft", "location", "note"), rows)


@APP.command("issues")
def issues(
    run: RunOption = "",
    since: SinceOption = "",
    workflow: WorkflowOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """What critics asked for, what became of it, and what came back: issue by issue of a run, or counted by critic."""
    from redraft.projections.issues import ISSUES, issue_counts, issues_of

    then, chosen = _moment(since), Chosen(run, workflow or "")
    if run:
        told = _asked(store, chosen, ISSUES, issues_of)
        if json:
            print_json(told)
        else:
            rows = ((i.status, i.kind, i.first, i.fixed or "", i.returns or "", i.critic, i.text) for i in told)
            _table(("status", "kind", "raised in", "fixed in", "came back", "critic", "text"), rows)
        return
    found = _asked(store, chosen, ISSUES, lambda views, _: issue_counts(views, then, chosen.workflow))
    if json:
        print_json(found)
    else:
        _table(
            ("critic", "kind", "raised", "fixed", "open", "came back", "runs"),
            ((i.critic, i.kind, i.raised, i.fixed, i.open, i.returned, i.runs) for i in found),
        )


@APP.command("tree")
def tree(
    run: RunOption = "",
    since: SinceOption = "",
    workflow: WorkflowOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Every loop, pass, panel, step and approval of a run, or of all: how it stands, its score, draft and outcome."""
    from redraft.projections.tree_nodes import TREE, tree_nodes

    then, chosen = _moment(since), Chosen(run, workflow or "")
    found = _asked(store, chosen, TREE, lambda views, one: tree_nodes(views, one, then, chosen.workflow))
    if json:
        print_json(found)
        return
    rows = (
        (n.run, n.path, n.kind, n.status, n.outcome, n.actor, n.draft or "", "" if n.score is None else _score(n.score))
        for n in found
    )
    _table(("run", "path", "kind", "status", "outcome", "actor", "draft", "score"), rows)


def _asked(store: str | None, chosen: Chosen, projection: Projection, question: Question[T]) -> T:
    """The answer of a read model that is up to date. Raises NoSuchRun for a run that there is not."""
    from redraft.projections.run_list import find_run

    if chosen.run and chosen.workflow:
        raise InputError(f"--workflow {chosen.workflow} is for all its runs, and {chosen.run} is one; leave one out")

    async def asked(log: House) -> T:
        run = (await find_run(log.views, chosen.run)).run if chosen.run else ""
        return await question(await log.models.of(projection), run)

    return ask(store, asked)


def _moment(since: str) -> datetime | None:
    return moment(since, datetime.now(UTC), "--since") if since else None


def _table(names: Sequence[str], rows: object) -> None:
    from rich.table import Table
    from rich.text import Text

    from redraft.projections.plain import plain

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:  # type: ignore[attr-defined]
        table.add_row(*(Text(plain(str(cell), 200)) for cell in row))
    if table.row_count:
        out().print(table)
    else:
        print_line("nothing yet")


def _score(score: float) -> str:
    from redraft.projections.plain import score_text

    return score_text(score)


def _verdict(approved: bool | None) -> str:
    return {True: "approved", False: "refused", None: ""}[approved]


def _verdicts(critic: Critic) -> tuple[int, int, int, int]:
    return critic.approved, critic.refused, critic.errors, critic.suggestions


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
