"""Mutants of the core are made, and tests and histories are to see each: `make mutants SAMPLE=800 SEED=1`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest
from tests.mutants.mutation import Mutant, Source
from tests.mutants.record import Record, table
from tests.mutants.selection import TESTS, Selection
from tests.mutants.trial import ENDLESS, Fate, failing_seed, failing_test, forked, put_in_place

WHOLE: Final = ("actors.deciding.judgement", "actors.deciding.facts", "events.store.commit")
"""Modules of which every mutant is tried."""

DRAWN: Final = (
    *(f"actors.deciding.{name}" for name in ("budget", "candidates", "credit", "decider", "evolve", "interpreter")),
    *(f"actors.deciding.{name}" for name in ("policy", "state", "steering")),
    *("actors.plans.arms", "actors.plans.paths", "actors.runtime.relaying.relay", "events.store.group_commit"),
)
"""Modules of whose mutants some are drawn: deciding, folding, the store's commit, and the relay."""


OPTIONS: Final = ("-qs", "-otimeout=0", "-pno:cacheprovider", "-Wignore::pytest.PytestAssertRewriteWarning")
"""Of the pytest that finds the tests: how long they may take, and what they say, is for the trials."""


class Trials:
    """The plugin of a pytest that has found the tests, and tries mutants instead of running them."""

    def __init__(self, sources: Mapping[str, Source], mutants: Sequence[Mutant], record: Record, seeds: int) -> None:
        self._sources = sources
        self._mutants = mutants
        self._record = record
        self._seeds = seeds

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        session.config.pluginmanager.unregister(name="terminalreporter")
        functions = {
            module: sorted({each.function for each in source.mutants}) for module, source in self._sources.items()
        }
        selection = Selection(session.items, functions, self._record.path.with_suffix(".taken.json"))
        for number, mutant in enumerate(self._mutants, 1):
            fate = self._controlled(mutant, selection)
            if fate.word == "killed":
                selection.killed(mutant.module, mutant.function, fate.by)
            self._record.add(mutant, fate)
            print(f"{number}/{len(self._mutants)} {mutant.id}  {fate.word} {fate.by}  {fate.seconds} s", flush=True)
        return True

    def _controlled(self, mutant: Mutant, selection: Selection) -> Fate:
        """What becomes of a mutant, by tests of which each that kills one passes by itself where nothing is changed."""
        while True:
            tests = selection.of(mutant.module, mutant.function)
            fate = self._tried(mutant, tests, selection)
            killers = [item for item in tests if fate.by in (item.nodeid, ENDLESS)]
            if not killers or selection.control(killers):
                return fate
            if fate.by == ENDLESS:
                return Fate("untried", "its tests do not end where nothing is changed either", fate.seconds)
            print(f"{fate.by} fails where nothing is changed, and is tried no more", flush=True)
            selection.without(fate.by)

    def _tried(self, mutant: Mutant, tests: Sequence[pytest.Item], selection: Selection) -> Fate:
        text = self._sources[mutant.module].mutated(mutant)

        def by_tests() -> str:
            put_in_place(mutant.module, mutant.function, text)
            return failing_test(tests, selection.limited)

        def by_histories() -> str:
            put_in_place(mutant.module, mutant.function, text)
            return failing_seed(self._seeds)

        fate = forked(by_tests)
        return forked(by_histories, times=5) if fate.word == "survived" and self._seeds else fate


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    options.add_argument("--sample", type=int, default=800, help="how many mutants, at least (default 800)")
    options.add_argument("--seed", type=int, default=1, help="by which mutants are drawn (default 1)")
    options.add_argument("--histories", type=int, default=50, help="seeds for what the tests do not kill (default 50)")
    options.add_argument("--record", type=Path, default=Path("mutants.tsv"), help="the file of results (mutants.tsv)")
    options.add_argument("--show", action="store_true", help="try nothing: show the table, and what survived")
    given = options.parse_args()
    record = Record(given.record)
    if given.show:
        return _show(record)
    sources = {module: Source(module) for module in (*WHOLE, *DRAWN)}
    todo = [each for each in sample(sources, given.sample, given.seed) if each.id not in record.lines]
    every = sum(len(source.mutants) for source in sources.values())
    record.say(f"commit {_commit()}: a sample of {given.sample}, by seed {given.seed}, of {every} mutants")
    code = pytest.main([*OPTIONS, *TESTS], plugins=[Trials(sources, todo, record, given.histories)])
    return int(code) or _show(record)


def sample(sources: Mapping[str, Source], count: int, seed: int) -> list[Mutant]:
    """As many mutants as make up the count, after all of some modules; a larger sample has the smaller in it."""
    whole = [each for module in WHOLE for each in sources[module].mutants]
    others = [each for module in DRAWN for each in sources[module].mutants]
    Random(seed).shuffle(others)
    return [*others[: max(count - len(whole), 0)], *whole]


def _show(record: Record) -> int:
    print(table(record.lines.values()))
    for line in record.survivors():
        print(f"{line.id}\t{line.change}")
    return 1 if record.survivors() else 0


def _commit() -> str:
    told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    return told.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
