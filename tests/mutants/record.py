"""What became of each mutant of a sample, kept line by line, so that a run that is cut off goes on where it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from tests.mutants.mutation import Mutant
from tests.mutants.trial import Fate

EQUIVALENT: Final = Path(__file__).parent / "equivalent.tsv"
"""Mutants that nobody can tell from what they mutate, each with its change and why."""


class Line(msgspec.Struct, frozen=True):
    """A mutant by its name, its change, and what became of it."""

    id: str
    change: str
    word: str
    by: str


class Record:
    """A file with a line for each mutant."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        rows = [row.split("\t") for row in text.splitlines() if row and not row.startswith("#")]
        self.lines = {row[0]: Line(*row[:4]) for row in rows}

    def say(self, text: str) -> None:
        """Keeps what the lines after it are about."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"# {text}\n")

    def add(self, mutant: Mutant, fate: Fate) -> None:
        """Keeps what became of a mutant."""
        line = Line(mutant.id, mutant.change, fate.word, fate.by)
        self.lines[mutant.id] = line
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line.id}\t{line.change}\t{line.word}\t{line.by}\t{mutant.line}\t{fate.seconds}\n")

    def survivors(self) -> list[Line]:
        """Those that nobody killed, and that are not named as equivalent."""
        named = equivalents()
        return [each for each in self.lines.values() if each.word == "survived" and not is_named(each, named)]


def equivalents() -> Mapping[str, str]:
    """The changes that are named as equivalent, by the mutant's name."""
    rows = [row.split("\t") for row in EQUIVALENT.read_text(encoding="utf-8").splitlines()]
    return {name: change for name, change, _ in rows}


def is_named(line: Line, named: Mapping[str, str]) -> bool:
    """Whether a mutant is named as equivalent; not when its name has come to mean another change."""
    return named.get(line.id) == line.change


def table(lines: Iterable[Line]) -> str:
    """How many mutants of each module were killed, for `docs/proof.md`."""
    named, counts = equivalents(), dict[str, Counter[str]]()
    for line in lines:
        counts.setdefault(line.id.partition(":")[0], Counter())[_kind(line, named)] += 1
    total = sum(counts.values(), Counter[str]())
    rows = [_row(module, counts[module]) for module in sorted(counts)]
    head = [
        "| module | mutants | killed by tests | by histories | equivalent | survived | killed of those that can be |"
    ]
    return "\n".join([*head, "|---|---|---|---|---|---|---|", *rows, _row("all", total)])


def _kind(line: Line, named: Mapping[str, str]) -> str:
    if line.word == "killed":
        return "histories" if line.by.startswith("seed ") else "tests"
    return "equivalent" if is_named(line, named) else line.word


def _row(name: str, count: Counter[str]) -> str:
    killed = count["tests"] + count["histories"]
    numbers: Sequence[int] = (count.total(), count["tests"], count["histories"], count["equivalent"], count["survived"])
    share = killed / max(killed + count["survived"], 1)
    return f"| {name} | {' | '.join(map(str, numbers))} | {share:.1%} |"
