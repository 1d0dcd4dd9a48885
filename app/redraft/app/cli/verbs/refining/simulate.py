"""`redraft simulate`: what a plan may come to, before anything is paid; guesses stand for all answers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from redraft.actors.plans.check import check_ready
from redraft.actors.plans.paths import steps_in
from redraft.app.cli.shared.options import (
    ActorsOption,
    JsonOption,
    PlanChanges,
    StateOption,
    WorkflowArgument,
    refuse_empty,
    with_options,
)
from redraft.app.models.configuration import actor_keys, check_model_names, models_of
from redraft.app.settings.settings import read_settings
from redraft.app.workflows.sources import override, prepare, read_source
from redraft.app.workflows.state_values import read_state, with_state
from redraft.events.errors import InputError, PlanError
from redraft.events.messages.content import Brief
from redraft.events.messages.plan import Plan
from redraft.events.messages.run_state import Values

if TYPE_CHECKING:
    from redraft.app.rehearsal.guesses import Guesses
    from redraft.app.rehearsal.rehearsal import Rehearsal

EXAMPLE: Final = """\b
Examples:
  redraft simulate article --critic 'noisy(0.1)' --model openai:gpt-5
  redraft simulate plan.yaml --critic 'noisy(0.2)' --critic 'facts=noisy(0.05, bias=-0.1)' --runs 10000
  redraft simulate plan.yaml --generator 'starts(0.4, 0.1)' --refiner 'gains(0.2, 0.1)' --until 'score >= 0.9' --json
"""

MOST: Final = 1_000_000

LONGEST: Final = 1_000_000_000
"""Seconds of an answer, at most."""

LENGTH: Final = 400
"""Characters of a brief where none is given."""


class GuessOptions(msgspec.Struct, frozen=True):
    """Guesses used instead of the answers of actors and people."""

    critic: Annotated[
        list[str],
        typer.Option(metavar="GUESS", help="noisy(SD), or scores(S1, S2, …) [default: noisy(0.1)]; see below."),
    ] = []
    generator: Annotated[
        list[str],
        typer.Option(metavar="GUESS", help="The quality of first drafts: starts(MEAN, SD) [default: starts(0.5, 0.1)]"),
    ] = []
    refiner: Annotated[
        list[str],
        typer.Option(metavar="GUESS", help="What refining adds: gains(SHARE, SD) [default: gains(0.3, 0.1)]"),
    ] = []
    gate: Annotated[
        list[str],
        typer.Option(metavar="GUESS", help="How many drafts gates let pass: passes(SHARE) [default: passes(0.9)]"),
    ] = []
    measure: Annotated[
        list[str],
        typer.Option(metavar="GUESS", help="What a critic counts: NAME=counts(WORST, BEST, SD); see below."),
    ] = []
    state: Annotated[
        list[str],
        typer.Option(metavar="STEP={JSON}", help="What a step changes in the state [default: nothing]; see below."),
    ] = []
    people: Annotated[
        list[str],
        typer.Option(metavar="GUESS", help="approve(SHARE, after=SECONDS) [default: approve(1)]"),
    ] = []
    fails: Annotated[float, typer.Option(metavar="SHARE", help="How many attempts fail, 0 to 1.")] = 0.0
    takes: Annotated[float, typer.Option(metavar="SECONDS", help="How long answers take on average, 0 to 1e9.")] = 10.0


@with_options
def simulate(
    workflow: WorkflowArgument,
    *,
    given: GuessOptions,
    runs: Annotated[int, typer.Option(help="How many runs.")] = 1000,
    seed: Annotated[int, typer.Option(help="The same number gives the same runs.")] = 0,
    brief: Annotated[
        str,
        typer.Option(
            metavar="SOURCE",
            callback=refuse_empty("a file or a text"),
            help="A brief as long as those to come: a file, or the text itself.",
        ),
    ] = "",
    actors: ActorsOption = "",
    settings: StateOption = [],  # noqa: B006 - never changed
    changes: PlanChanges,
    json: JsonOption = False,
) -> None:
    """Rehearse a plan many times and print how it ends, its iterations, scores and cost. Nobody is asked.

    The decider of real runs decides; guesses stand for the answers. Each draft has a quality, 0 to 1: first drafts have
    about 0.5, refining adds about 0.3 of what is missing to 1, and noisy(0.1) scores it with a standard deviation of
    0.1. A guess for one step has its name, or its actor's, before it: judge=noisy(0.05). Measures meet their conditions
    as often as drafts are good, unless a guess says how many there are: failing=counts(10, 0, 1). Free steps change
    nothing in the state, unless --state says what, once for each answer in turn: --state 'tests={"pass": true}'.
    docs/cli.md has the details.
    """
    from redraft.app.cli.views.simulate import print_rehearsed

    if not 1 <= runs <= MOST:
        raise InputError(f"--runs is {runs}; give 1 to {MOST:,}")
    rehearsal = _rehearsal(workflow, actors, _guesses(given), brief, read_state(settings), changes)
    print_rehearsed(rehearsal, runs, seed, json=json)


def _guesses(given: GuessOptions) -> Guesses:
    """Returns the guesses that the options mean. Raises InputError."""
    from redraft.app.rehearsal.changes import read_changes
    from redraft.app.rehearsal.guesses import Approve, Gains, Guesses, Noisy, Passes, Scores, Starts, read_guesses
    from redraft.app.rehearsal.measured import Counts

    if not 0 <= given.fails <= 1:
        raise InputError(f"--fails is {given.fails:g}; give a share, 0 to 1")
    if not 0 <= given.takes <= LONGEST:
        raise InputError(f"--takes is {given.takes:g}; give seconds, 0 to {LONGEST:,}")
    usual = Guesses()
    return Guesses(
        read_guesses("--critic", given.critic, [Noisy, Scores], usual.critics),
        read_guesses("--generator", given.generator, [Starts], usual.generators),
        read_guesses("--refiner", given.refiner, [Gains], usual.refiners),
        read_guesses("--gate", given.gate, [Passes], usual.gates),
        read_guesses("--people", given.people, [Approve], usual.people),
        read_guesses("--measure", given.measure, [Counts], usual.measures),
        read_changes(given.state),
        given.fails,
        given.takes,
    )


def _rehearsal(
    workflow: str, actors: str, guesses: Guesses, brief: str, values: Values, changes: PlanChanges
) -> Rehearsal:
    """Returns the rehearsal of a workflow. Raises InputError for all that is wrong with what was given."""
    from redraft.app.client.result import check_values
    from redraft.app.rehearsal.changes import check_changes
    from redraft.app.rehearsal.rehearsal import Rehearsal
    from redraft.app.workflows.briefs import read_brief

    settings = read_settings()
    found = read_source(workflow, actors=actors, model=changes.model)
    plan = override(found.plan, changes.until, changes.max_iterations, changes.budget)
    _check_declared(plan, actors)
    _check_steps(plan, guesses)
    _check_measures(plan, guesses)
    about = (
        read_brief(brief, sys.stdin.buffer, as_text=None, limit=settings.max_draft_bytes)
        if brief
        else Brief(" " * LENGTH)
    )
    about = with_state(about, values)
    check_values(plan, about.state)
    check_changes(plan, about, guesses.changes)
    models, own = models_of(settings), actor_keys(found.actors)
    prepared = prepare(plan, about, models, own, changes.model)
    check_model_names(prepared, models, own)
    return Rehearsal(prepared, about, guesses, models, own)


def _check_declared(plan: Plan, actors: str) -> None:
    """Raises PlanError for a name in a condition that nobody declares: no number could be guessed for it."""
    try:
        check_ready(plan)
    except PlanError as error:
        remedy = "" if actors else "; what functions declare is read from their file: --actors FILE.py"
        raise PlanError(error.path, f"{error.fault}{remedy}") from None


def _check_steps(plan: Plan, guesses: Guesses) -> None:
    """Raises InputError for a guess about a step that is not there."""
    from redraft.app.rehearsal.guesses import check_steps
    from redraft.events.messages.plan import Approve, nodes_of

    steps = [step for _, step in steps_in(plan.steps)]

    def list_names(role: str, *, gate: bool = False) -> list[str]:
        return [name for step in steps if (step.role, step.gate) == (role, gate) for name in (step.name, step.actor)]

    people = [node.name for _, node in nodes_of(plan.steps) if isinstance(node, Approve)]
    check_steps("--critic", guesses.critics, list_names("critic"))
    check_steps("--gate", guesses.gates, list_names("critic", gate=True))
    check_steps("--generator", guesses.generators, list_names("generator"))
    check_steps("--refiner", guesses.refiners, list_names("refiner"))
    check_steps("--people", guesses.people, people)
    check_steps("--state", guesses.changes, [name for step in steps for name in (step.name, step.actor)])


def _check_measures(plan: Plan, guesses: Guesses) -> None:
    """Raises InputError for a guess about a measure that no critic declares."""
    from redraft.app.builtin.support.options import nearest
    from redraft.app.rehearsal.guesses import write_guess
    from redraft.events.messages.plan import measure_name

    known = [(step.name, measure_name(each)) for _, step in steps_in(plan.steps) for each in step.measures]
    names = list(dict.fromkeys([*(own for _, own in known), *(f"{step}.{own}" for step, own in known)]))
    for name, guess in guesses.measures.items():
        if not name:
            text = write_guess(guess)
            raise InputError(
                f"--measure {text}: say whose guess it is, such as {names[0] if names else 'words'}={text}"
            )
        if name not in names:
            remedy = nearest(name, names) if names else "its critics declare none"
            raise InputError(f"--measure {name}=…: the plan has no such measure; {remedy}")
