"""The verbs of `redraft stats` about many runs: costs, budgets, critics compared, issues that come again."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from redraft.app.cli.shared.options import with_options
from redraft.app.cli.verbs.reading.stats import (
    APP,
    Answer,
    LimitOption,
    Selection,
    StatsOptions,
    compared,
    print_answer,
    verb,
)
from redraft.events.errors import InputError
from redraft.projections.backends import ReadModels
from redraft.projections.display import cost_text
from redraft.projections.read_models import agreement as of_critics
from redraft.projections.read_models import costs as money
from redraft.projections.read_models.actor_work import ACTORS
from redraft.projections.read_models.critiques import CRITIQUES
from redraft.projections.read_models.issues import ISSUES, recurring_issues
from redraft.projections.read_models.lessons import known_lessons


@APP.command("costs", epilog="Example: redraft stats costs --by model --since 7d")
@with_options
def costs(
    given: StatsOptions,
    by: Annotated[money.CostBy, typer.Option(metavar="WHAT", help="By run, actor, model or day (UTC).")] = "day",
    limit: LimitOption = 20,
) -> None:
    """Show what attempts took, by day, run, actor or model: calls, tokens, cost, seconds from request to answer."""

    async def ask(models: ReadModels, selected: Selection) -> Answer[Any]:
        _refuse_run(selected)
        found = await money.costs(await models.of(ACTORS), by, selected.since, selected.workflow, selected.limit)
        names = (by, "attempts", "failed", "runs", "calls", "tokens", "cost", "seconds")
        return Answer(
            found,
            names,
            lambda c: (
                *(c.name or "none", c.attempts, c.failed or "", c.runs, c.calls or "", c.tokens or ""),
                *(cost_text(c.cost, c.currency, c.unpriced), f"{c.seconds:.3g}"),
            ),
        )

    print_answer(ask, given, limit)


@APP.command("budgets", epilog="Example: redraft stats budgets --since 7d")
@with_options
def budgets(given: StatsOptions, limit: LimitOption = 20) -> None:
    """Show how much of their budgets runs used, reached ones first. A daily one is of all runs of a workflow."""
    print_answer(_budgets, given, limit)


async def _budgets(models: ReadModels, selected: Selection) -> Answer[Any]:
    _refuse_run(selected)
    return Answer(
        await money.budgets(await models.of(money.BUDGETS), selected.since, selected.workflow, selected.limit),
        ("run", "workflow", "of", "limit", "used", "reached"),
        lambda b: (
            *(b.run, b.workflow, f"daily {b.quantity}" if b.daily else b.quantity, f"{b.limit:,g}"),
            *("" if b.used is None else f"{b.used:,.6g}", "reached" if b.reached else ""),
        ),
    )


@verb("--workflow article")
async def distributions(models: ReadModels, selected: Selection) -> Answer[Any]:
    """Show how many scores of each critic are in each tenth of 0 to 1."""
    _refuse_run(selected)
    found = await of_critics.distributions(await models.of(CRITIQUES), selected.since, selected.workflow)
    names = tuple(f"{at / of_critics.BINS:.1f}" for at in range(of_critics.BINS))
    return Answer(
        found, ("critic", "scores", *names), lambda d: (d.critic, d.scores, *(each or "" for each in d.counts))
    )


@verb("--since 30d")
async def drift(models: ReadModels, selected: Selection) -> Answer[Any]:
    """Show the mean score of each critic by day (UTC), on its scale."""
    _refuse_run(selected)
    found = await of_critics.drift(await models.of(CRITIQUES), selected.since, selected.workflow)
    return Answer(
        found,
        ("critic", "day (UTC)", "scores", "mean"),
        lambda d: (d.critic, f"{d.day:%Y-%m-%d}", d.scores, *compared(d.scale, d.mean)),
    )


@verb("--workflow article")
async def agreement(models: ReadModels, selected: Selection) -> Answer[Any]:
    """Show every two critics that scored the same drafts: how far apart (0 to 1), and how far they rise together."""
    _refuse_run(selected)
    found = await of_critics.agreement(await models.of(CRITIQUES), selected.since, selected.workflow)
    return Answer(
        found,
        ("critic", "other", "drafts", "difference", "correlation"),
        lambda a: (
            *(a.critic, a.other, a.drafts, f"{a.difference:.3f}"),
            "" if a.correlation is None else f"{a.correlation:.2f}",
        ),
    )


@verb("--since 30d")
async def people(models: ReadModels, selected: Selection) -> Answer[Any]:
    """Show how critics scored the drafts that people approved and rejected, and whose verdicts were the same."""
    _refuse_run(selected)
    found = await of_critics.with_people(await models.of(CRITIQUES), selected.since, selected.workflow)
    return Answer(
        found,
        ("critic", "approved", "mean score", "rejected", "mean score ", "same verdict", "other verdict"),
        lambda p: (
            *(p.critic, p.approved, *compared(p.scale, p.mean_approved)),
            *(p.rejected, *compared(p.scale, p.mean_rejected), p.same, p.other),
        ),
    )


@APP.command("recurring", epilog="Example: redraft stats recurring --workflow article")
@with_options
def recurring(given: StatsOptions, limit: LimitOption = 20) -> None:
    """Show the issues of critics across runs: in how many each was raised, fixed, is open, and came back."""
    print_answer(_recurring, given, limit)


async def _recurring(models: ReadModels, selected: Selection) -> Answer[Any]:
    _refuse_run(selected)
    found = await recurring_issues(await models.of(ISSUES), selected.since, selected.workflow, selected.limit)
    return Answer(
        found,
        ("critic", "kind", "runs", "fixed", "open", "came back", "declined", "text"),
        lambda i: (
            *(i.critic, i.kind, i.runs, i.fixed or "", i.open or "", i.returned or "", i.declined or "", i.text),
        ),
    )


@APP.command("lessons", epilog="Example: redraft stats lessons --workflow article")
@with_options
def lessons(given: StatsOptions, limit: LimitOption = 20) -> None:
    """Show the lessons that ended runs leave to later ones: how often an issue came, what mended it, if struck out."""
    print_answer(_lessons, given, limit)


async def _lessons(models: ReadModels, selected: Selection) -> Answer[Any]:
    _refuse_run(selected)
    if selected.since is not None:
        raise InputError("lessons are those of all ended runs; leave out --since")
    found = await known_lessons(await models.of(ISSUES), selected.workflow, selected.limit)
    return Answer(
        found,
        ("lesson", "workflow", "critic", "kind", "runs", "came back", "listed", "struck out by", "text", "mended by"),
        lambda i: (
            *(i.id, i.workflow, i.critic, i.kind, i.runs, i.returns or "", i.times),
            *("" if i.struck_by is None else i.struck_by or "somebody", i.text, i.mended),
        ),
    )


def _refuse_run(selected: Selection) -> None:
    if selected.run:
        raise InputError(f"these are figures over many runs, but one was named, {selected.run}; leave it out")
