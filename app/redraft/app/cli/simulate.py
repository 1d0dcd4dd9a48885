"""`redraft simulate`: what a plan may come to, before anything is paid; guesses stand for all answers."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.options import BudgetOption, JsonOption, ModelOption, PassesOption, UntilOption
from redraft.events.errors import InputError

if TYPE_CHECKING:
    from redraft.app.guesses import Guesses
    from redraft.app.rehearsal import Rehearsal
    from redraft.events.plan import Plan

EXAMPLE: Final = """\b
Examples:
  redraft simulate article --critic 'noisy(0.1)' --model openai:gpt-5
  redraft simulate plan.yaml --critic 'noisy(0.2)' --critic 'facts=noisy(0.05, bias=-0.1)' --runs 10000
  redraft simulate plan.yaml --generator 'starts(0.4, 0.1)' --refiner 'gains(0.2, 0.1)' --until 'score >= 0.9' --json
"""

MOST: Final = 1_000_000

LENGTH: Final = 400
"""Characters of a brief where none is given."""


def simulate(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="A shipped one, file.py:name, or plan.yaml.")],
    critic: Annotated[
        list[str] | None,
        typer.Option(metavar="GUESS", help="noisy(SD), or scores(S1, S2, …) [default: noisy(0.1)]; see below."),
    ] = None,
    generator: Annotated[
        list[str] | None,
        typer.Option(metavar="GUESS", help="The quality of first drafts: starts(MEAN, SD) [default: starts(0.5, 0.1)]"),
    ] = None,
    refiner: Annotated[
        list[str] | None,
        typer.Option(metavar="GUESS", help="What refining adds: gains(SHARE, SD) [default: gains(0.3, 0.1)]"),
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(metavar="GUESS", help="How many drafts gates let pass: passes(SHARE) [default: passes(0.9)]"),
    ] = None,
    people: Annotated[
        list[str] | None,
        typer.Option(metavar="GUESS", help="approve(SHARE, after=SECONDS) [default: approve(1)]"),
    ] = None,
    fails: Annotated[float, typer.Option(metavar="SHARE", help="How many attempts fail, 0 to 1.")] = 0.0,
    takes: Annotated[float, typer.Option(metavar="SECONDS", help="How long an answer takes, on average.")] = 10.0,
    runs: Annotated[int, typer.Option(help="How many runs.")] = 1000,
    seed: Annotated[int, typer.Option(help="The same number gives the same runs.")] = 0,
    brief: Annotated[
        str, typer.Option(metavar="SOURCE", help="A brief as long as those to come: a file, or the text itself.")
    ] = "",
    until: UntilOption = "",
    max_iterations: PassesOption = None,
    budget: BudgetOption = "",
    model: ModelOption = "",
    json: JsonOption = False,
) -> None:
    """Rehearse a plan many times and print how it ends, its iterations, scores and cost. Nobody is asked.

    The decider of real runs decides; guesses stand for the answers. Each draft has a quality, 0 to 1: first drafts have
    about 0.5, refining adds about 0.3 of what is missing to 1, and noisy(0.1) scores it with a standard deviation of
    0.1. A guess for one step has its name, or its actor's, before it: judge=noisy(0.05). docs/cli.md has the details.
    """
    from redraft.app.cli.simulate_view import print_rehearsed
    from redraft.app.guesses import Approve, Gains, Guesses, Noisy, Passes, Scores, Starts, read_guesses

    if not 1 <= runs <= MOST:
        raise InputError(f"--runs is {runs}; give 1 to {MOST:,}")
    if not 0 <= fails <= 1:
        raise InputError(f"--fails is {fails:g}; give a share, 0 to 1")
    if not (math.isfinite(takes) and 0 <= takes <= 1e9):
        raise InputError(f"--takes is {takes:g}; give seconds, 0 or more")
    usual = Guesses()
    guesses = Guesses(
        read_guesses("--critic", critic or (), [Noisy, Scores], usual.critics),
        read_guesses("--generator", generator or (), [Starts], usual.generators),
        read_guesses("--refiner", refiner or (), [Gains], usual.refiners),
        read_guesses("--gate", gate or (), [Passes], usual.gates),
        read_guesses("--people", people or (), [Approve], usual.people),
        fails,
        takes,
    )
    rehearsal = _rehearsal(workflow, guesses, brief, until, max_iterations, budget, model)
    print_rehearsed(rehearsal, runs, seed, json=json)


def _rehearsal(
    workflow: str, guesses: Guesses, brief: str, until: str, max_iterations: int | None, budget: str, model: str
) -> Rehearsal:
    """Returns the rehearsal of a workflow. Raises InputError for all that is wrong with what was given."""
    from redraft.app.briefs import read_brief
    from redraft.app.models import models_of, seats_of
    from redraft.app.prepare import prepare
    from redraft.app.rehearsal import Rehearsal
    from redraft.app.settings import read_settings
    from redraft.app.sources import override, read_source
    from redraft.events.content import Brief

    settings = read_settings()
    found = read_source(workflow, model=model)
    plan = override(found.plan, until, max_iterations, budget)
    _check_steps(plan, guesses)
    about = (
        read_brief(brief, sys.stdin.buffer, as_text=None, limit=settings.draft_limit) if brief else Brief(" " * LENGTH)
    )
    models, own = models_of(settings), seats_of(found.actors)
    return Rehearsal(prepare(plan, about, models, own, model), about, guesses, models, own)


def _check_steps(plan: Plan, guesses: Guesses) -> None:
    """Raises InputError for a guess about a step that is not there."""
    from redraft.actors.plan_paths import steps_in
    from redraft.app.guesses import check_steps
    from redraft.events.plan import Approve, loops_of

    steps = [step for _, step in steps_in(plan.steps)]

    def named(role: str, *, gate: bool = False) -> list[str]:
        return [name for step in steps if (step.role, step.gate) == (role, gate) for name in (step.name, step.actor)]

    bodies = [plan.steps, *(loop.body for _, loop in loops_of(plan.steps))]
    people = [node.name for body in bodies for node in body if isinstance(node, Approve)]
    check_steps("--critic", guesses.critics, named("critic"))
    check_steps("--gate", guesses.gates, named("critic", gate=True))
    check_steps("--generator", guesses.generators, named("generator"))
    check_steps("--refiner", guesses.refiners, named("refiner"))
    check_steps("--people", guesses.people, people)
