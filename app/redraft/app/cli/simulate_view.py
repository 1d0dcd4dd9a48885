"""Prints the result of `redraft simulate`: the outcomes, and the distribution of iterations, scores and cost."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from rich.table import Table

from redraft.app.cli.output import out, print_json
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


def print_rehearsed(rehearsal: Rehearsal, runs: int, seed: int, *, json: bool) -> None:
    """Rehearses a plan so often, and tells what came of it, for people or as JSON."""
    found = summary(rehearsal.run(Random(f"{seed} {number}")) for number in range(runs))  # noqa: S311 - no secret
    name, guessed = rehearsal.plan.name, _guessed(rehearsal.guesses)
    if json:
        print_json({"workflow": name, "seed": seed, "guesses": guessed, "free": rehearsal.free(), **_told(found)})
        return
    out().print(f"{plain(name)}: {counted(runs, 'rehearsed run')}, seed {seed}; nobody was asked", soft_wrap=True)
    out().print(
        "guessed: " + "; ".join(f"{about} {', '.join(each)}" for about, each in guessed.items()), soft_wrap=True
    )
    out().print()
    out().print(_shares(found))
    out().print()
    out().print(_spreads(found))
    for note in _notes(rehearsal, found):
        out().print(note, soft_wrap=True)


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


def _told(found: Summary) -> dict[str, object]:
    """The summary as JSON has it."""
    return {
        "runs": found.runs,
        "outcomes": found.outcomes,
        "iterations": {str(number): runs for number, runs in found.iterations.items()},
        "spreads": found.spreads,
        "unpriced": found.unpriced,
    }


def _shares(found: Summary) -> Table:
    """How the runs end, and after how many iterations."""
    table = _table("outcome", "runs", "", "iterations", "runs")
    outcomes = [(plain(outcome_text(each)), runs) for each, runs in found.outcomes.items()]  # type: ignore[arg-type]
    iterations = [(str(number), runs) for number, runs in found.iterations.items()]
    for place in range(max(len(outcomes), len(iterations))):
        left, right = (_share(each, place, found.runs) for each in (outcomes, iterations))
        table.add_row(*left, " ", *right)
    return table


def _share(rows: list[tuple[str, int]], place: int, runs: int) -> tuple[str, str]:
    if place >= len(rows):
        return "", ""
    name, number = rows[place]
    return name, f"{number / runs:.1%}"


def _spreads(found: Summary) -> Table:
    table = _table("", "mean", "min", "5 %", "25 %", "50 %", "75 %", "95 %", "max")
    for name, about in ROWS.items():
        if (spread := found.spreads.get(name)) is not None and (name not in PAID or spread.max > 0):
            table.add_row(about, *_numbers(name, spread))
    return table


def _numbers(name: str, each: Spread) -> list[str]:
    values = (each.mean, each.min, each.p05, each.p25, each.p50, each.p75, each.p95, each.max)
    match name:
        case "score" | "quality":
            return [score_text(value) for value in values]
        case "cost":
            return [f"{value:.4f}" for value in values]
        case _:
            return [f"{values[0]:,.1f}", *(f"{value:,.0f}" for value in values[1:])]


def _notes(rehearsal: Rehearsal, found: Summary) -> list[str]:
    notes = []
    if found.unpriced:
        calls = counted(found.unpriced, "call")
        notes.append(f"the cost leaves out {calls} whose price nobody knows: name a --model, or state model_prices")
    if free := rehearsal.free():
        told = ", ".join(map(plain, free))
        notes.append(f"not counted: what {told} may ask of models; their steps can say reserve_tokens, reserve_cost, …")
    return notes


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number and name != "iterations" else "left", no_wrap=True)
    return table
