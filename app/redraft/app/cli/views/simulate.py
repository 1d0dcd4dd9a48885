"""Prints the result of `redraft simulate`: the outcomes, and the distribution of iterations, scores and cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from random import Random
from typing import Final

from msgspec.structs import asdict, astuple

from redraft.app.cli.shared.output import print_json, print_line, print_wrapped
from redraft.app.cli.shared.tables import print_table
from redraft.app.rehearsal.changes import unguessed, write_changes
from redraft.app.rehearsal.guesses import Guess, Guesses, write_guess
from redraft.app.rehearsal.rehearsal import Rehearsal, Spread, Summary, summarize
from redraft.events.messages.scales import Scale, score_text
from redraft.projections.display import counted, outcome_text, plain

ROWS: Final = {
    "iterations": "iterations",
    "score": "score at the end",
    "quality": "quality at the end",
    "cost": "cost, USD",
    "tokens": "tokens",
    "calls": "calls of models",
    "steps": "steps",
    "seconds": "seconds",
}

PAID: Final = frozenset({"cost", "tokens", "calls"})
"""The rows that are left out where they are 0 in every run."""

NUMBERS: Final = ("mean", "min", "5 %", "25 %", "50 %", "75 %", "95 %", "max")


def print_rehearsed(rehearsal: Rehearsal, runs: int, seed: int, *, json: bool) -> None:
    """Rehearses a plan `runs` times, and prints the results, for people or as JSON."""
    found = summarize(rehearsal.run(Random(f"{seed} {number}")) for number in range(runs))  # noqa: S311 - no secret
    name, guessed = rehearsal.plan.name, _write_guesses(rehearsal.guesses)
    if json:
        print_json({"workflow": name, "seed": seed, "guesses": guessed, "free": rehearsal.free(), **asdict(found)})
        return
    guess_text = "; ".join(f"{about} {', '.join(each)}" for about, each in guessed.items())
    lines = [
        f"{plain(name)}: {counted(runs, 'rehearsed run')}, seed {seed}; no model or person was asked",
        f"guessed: {guess_text}",
    ]
    for line in (*lines, ""):
        print_wrapped(line, indent=2)
    _print_shares(found)
    print_line("")
    _print_spreads(found)
    for note in _notes(rehearsal, found):
        print_wrapped(note, indent=2)


def _write_guesses(guesses: Guesses) -> dict[str, list[str]]:
    kinds = ("critics", "generators", "refiners", "gates", "people", *(("measures",) if guesses.measures else ()))
    changes = {"state": write_changes(guesses.changes)} if guesses.changes else {}
    every: dict[str, Mapping[str, Guess]] = {kind: getattr(guesses, kind) for kind in kinds}
    texts = {
        about: [f"{name}={write_guess(each)}" if name else write_guess(each) for name, each in those.items()]
        for about, those in every.items()
    }
    return texts | changes | {"fails": [f"{guesses.fails:g}"], "takes": [f"{guesses.takes:g} s"]}


def _print_shares(found: Summary) -> None:
    """Prints how the simulated runs end, and after how many iterations."""
    outcomes = [(outcome_text(each), f"{runs / found.runs:.1%}") for each, runs in found.outcomes.items()]
    iterations = [(number, f"{runs / found.runs:.1%}") for number, runs in found.iterations.items()]
    rows = [(*left, "", *right) for left, right in zip_longest(outcomes, iterations, fillvalue=("", ""))]
    print_table(("outcome", "runs", " ", "iterations", "runs"), rows, right=["runs"])


def _print_spreads(found: Summary) -> None:
    known = {name: each for name, each in found.spreads.items() if name not in PAID or each.max > 0}
    rows = [(ROWS[name], *_numbers(name, each, found.scale)) for name, each in known.items()]
    print_table(("", *NUMBERS), rows, right=NUMBERS, spare=("25 %", "75 %", "5 %", "95 %"))


def _numbers(name: str, each: Spread, scale: Scale | None) -> list[str]:
    _, mean, *others = astuple(each)
    match name:
        case "score" | "quality":
            return [score_text(number, scale if name == "score" else None) for number in (mean, *others)]
        case "cost":
            return [f"{number:.4f}" for number in (mean, *others)]
        case _:
            return [f"{mean:,.1f}", *(f"{number:,.0f}" for number in others)]


def _notes(rehearsal: Rehearsal, found: Summary) -> Iterator[str]:
    if found.reason:
        yield f"the commonest reason of failed runs: {plain(found.reason)}"
    if found.unpriced:
        calls = counted(found.unpriced, "call")
        yield f"the cost leaves out {calls} whose price is not known: name a --model, or state model_prices"
    if alike := list(unguessed(rehearsal.plan, rehearsal.guesses.changes)):
        names = ", ".join(map(plain, alike))
        said = f"--state '{plain(alike[0])}={{\"NAME\": VALUE}}'"
        yield f"guessed as no change of the state: what {names} may change; say what it does with {said}"
    if free := rehearsal.free():
        actors = ", ".join(map(plain, free))
        yield f"not counted: what {actors} may ask of models; their steps can say reserve_tokens, reserve_cost, …"
