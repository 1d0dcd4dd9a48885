"""Prints the result of `redraft simulate`: the outcomes, and the distribution of iterations, scores and cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from random import Random
from typing import Final

from msgspec.structs import asdict, astuple
from rich.table import Table

from redraft.app.cli.output import out, print_json, table_of
from redraft.app.guesses import Guess, Guesses, written
from redraft.app.rehearsal import Rehearsal
from redraft.app.rehearsal_table import Spread, Summary, summary
from redraft.projections.plain import counted, outcome_text, plain, score_text

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
    """Rehearses a plan so often, and tells what came of it, for people or as JSON."""
    found = summary(rehearsal.run(Random(f"{seed} {number}")) for number in range(runs))  # noqa: S311 - no secret
    name, guessed = rehearsal.plan.name, _guessed(rehearsal.guesses)
    if json:
        print_json({"workflow": name, "seed": seed, "guesses": guessed, "free": rehearsal.free(), **asdict(found)})
        return
    told = "; ".join(f"{about} {', '.join(each)}" for about, each in guessed.items())
    lines = [f"{plain(name)}: {counted(runs, 'rehearsed run')}, seed {seed}; nobody was asked", f"guessed: {told}"]
    for each in (*lines, "", _shares(found), "", _spreads(found), *_notes(rehearsal, found)):
        out().print(each, soft_wrap=isinstance(each, str))


def _guessed(guesses: Guesses) -> dict[str, list[str]]:
    every: dict[str, Mapping[str, Guess]] = {
        "critics": guesses.critics,
        "generators": guesses.generators,
        "refiners": guesses.refiners,
        "gates": guesses.gates,
        "people": guesses.people,
    }
    told = {
        about: [f"{name}={written(each)}" if name else written(each) for name, each in those.items()]
        for about, those in every.items()
    }
    return told | {"fails": [f"{guesses.fails:g}"], "takes": [f"{guesses.takes:g} s"]}


def _shares(found: Summary) -> Table:
    """How the runs end, and after how many iterations."""
    outcomes = [(outcome_text(each), f"{runs / found.runs:.1%}") for each, runs in found.outcomes.items()]
    iterations = [(number, f"{runs / found.runs:.1%}") for number, runs in found.iterations.items()]
    rows = [(*left, "", *right) for left, right in zip_longest(outcomes, iterations, fillvalue=("", ""))]
    return table_of(("outcome", "runs", " ", "iterations", "runs"), rows, ["runs"])


def _spreads(found: Summary) -> Table:
    known = {name: each for name, each in found.spreads.items() if name not in PAID or each.max > 0}
    rows = [(ROWS[name], *_numbers(name, each)) for name, each in known.items()]
    return table_of(("", *NUMBERS), rows, NUMBERS)


def _numbers(name: str, each: Spread) -> list[str]:
    _, mean, *others = astuple(each)
    match name:
        case "score" | "quality":
            return [score_text(number) for number in (mean, *others)]
        case "cost":
            return [f"{number:.4f}" for number in (mean, *others)]
        case _:
            return [f"{mean:,.1f}", *(f"{number:,.0f}" for number in others)]


def _notes(rehearsal: Rehearsal, found: Summary) -> Iterator[str]:
    if found.unpriced:
        calls = counted(found.unpriced, "call")
        yield f"the cost leaves out {calls} whose price nobody knows: name a --model, or state model_prices"
    if free := rehearsal.free():
        told = ", ".join(map(plain, free))
        yield f"not counted: what {told} may ask of models; their steps can say reserve_tokens, reserve_cost, …"
