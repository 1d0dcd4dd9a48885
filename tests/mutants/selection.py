"""Which tests are tried on a mutant: those that call its function, those that killed others of it first."""

from __future__ import annotations

import resource
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Final

import coverage
import msgspec
import pytest
from hypothesis import Phase, settings
from tests.mutants.trial import allow, codes, failing_test, forked, function_of

TESTS: Final = (
    "tests/actors/deciding/test_approval.py",
    "tests/actors/deciding/test_budget.py",
    "tests/actors/deciding/test_choose.py",
    "tests/actors/runtime/test_command_handler.py",
    "tests/actors/runtime/test_coordinator.py",
    "tests/actors/deciding/test_decider.py",
    "tests/properties/test_deciding_properties.py",
    "tests/actors/deciding/test_forking.py",
    "tests/actors/deciding/test_gates.py",
    "tests/actors/deciding/test_judgement.py",
    "tests/scenarios/test_known_faults.py",
    "tests/actors/deciding/test_oscillation.py",
    "tests/actors/deciding/test_panel.py",
    "tests/actors/deciding/test_quarantine.py",
    "tests/actors/runtime/test_relay.py",
    "tests/actors/runtime/test_relay_troubles.py",
    "tests/actors/deciding/test_rules_golden.py",
    "tests/actors/deciding/test_rules_two.py",
    "tests/actors/deciding/test_steering.py",
    "tests/actors/replay/test_whatif.py",
    "tests/events/store/test_appends.py",
    "tests/events/store/test_group_commit.py",
    "tests/events/store/test_contract.py",
    "tests/events/store/test_faults.py",
    "tests/events/sqlite/test_store.py",
    "tests/events/store/test_tail.py",
    "tests/events/store/test_commit.py",
)
"""Tests of the core, without those that start processes."""

SLOW: Final = 4.0
"""Seconds of processor time beyond which a test is left out."""

ENOUGH: Final = 8.0
"""Seconds of processor time, in all, that the tests of one mutant take."""

EXAMPLES: Final = 15
"""Examples of a property that are tried, the same ones each time."""

LEFT_OUT: Final = ("postgres", "rabbit", "many_coordinators", "stays_held")
"""Names of tests that need a server, or both cores for a minute, or wait for long as they are to."""


class Taken(msgspec.Struct, frozen=True):
    """A test's seconds, whether it starts processes, and the functions that it calls, as `module:function`."""

    seconds: float
    starts: bool
    calls: frozenset[str]

    @property
    def is_quick(self) -> bool:
        """Whether it is tried on mutants."""
        return self.seconds <= SLOW and not self.starts


class Measured(msgspec.Struct, frozen=True):
    """What tests take and call, by their names, and the hash of the modules that this was measured of."""

    modules: str
    tests: dict[str, Taken]


class Selection:
    def __init__(self, items: Sequence[pytest.Item], functions: Mapping[str, Sequence[str]], kept: Path) -> None:
        """`functions` are those that are mutated, by module; what is measured is kept in a file, for the next time."""
        wanted = {item.nodeid: item for item in items if not any(name in item.nodeid for name in LEFT_OUT)}
        for item in wanted.values():
            _steady(item)
        self._taken = _taken(wanted, functions, kept)
        self._items = {name: item for name, item in wanted.items() if self._taken[name].is_quick}
        self._kills: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._controls: dict[tuple[str, ...], bool] = {}

    def of(self, module: str, function: str) -> list[pytest.Item]:
        """The tests that call a function: first who killed most of its mutants, then of its module's, then the fast."""
        place, found, total = f"{module}:{function}", [], 0.0
        calling = [name for name in self._items if place in self._taken[name].calls]
        here, there = self._kills[place], self._kills[module]
        for name in sorted(calling, key=lambda name: (-here[name], -there[name], self._taken[name].seconds)):
            total += self._taken[name].seconds
            if total > ENOUGH:
                break
            found.append(self._items[name])
        return found

    @contextmanager
    def limited(self, item: pytest.Item) -> Iterator[None]:
        """Ends this process when a test takes far longer than it did."""
        allow(3 * self._taken[item.nodeid].seconds + 3)
        yield

    def control(self, tests: Sequence[pytest.Item]) -> bool:
        """Whether these tests pass where nothing is changed, one after the other in a process of their own."""
        names = tuple(item.nodeid for item in tests)
        if names not in self._controls:
            self._controls[names] = forked(lambda: failing_test(tests, self.limited)).word == "survived"
        return self._controls[names]

    def without(self, test: str) -> None:
        """Tries this test no more."""
        del self._items[test]

    def killed(self, module: str, function: str, test: str) -> None:
        """Notes that a test killed a mutant: it is tried first on the next."""
        self._kills[f"{module}:{function}"][test] += 1
        self._kills[module][test] += 1


def _steady(item: pytest.Item) -> None:
    """A property is tried on the same few examples each time, and one that fails is not shortened."""
    function = getattr(item, "obj", None)
    name = "_hypothesis_internal_use_settings"
    if function is not None and getattr(function, "is_hypothesis_test", False):
        function = getattr(function, "__func__", function)
        given = getattr(function, name)
        few = min(given.max_examples, EXAMPLES)
        phases = (Phase.explicit, Phase.generate)
        setattr(function, name, settings(given, max_examples=few, derandomize=True, database=None, phases=phases))


def _taken(items: Mapping[str, pytest.Item], functions: Mapping[str, Sequence[str]], kept: Path) -> dict[str, Taken]:
    """What each test takes and calls: as it was measured before, or from one run of all that were not."""
    modules = _hash(functions)
    before = msgspec.json.decode(kept.read_bytes(), type=Measured) if kept.exists() else Measured("", {})
    known = before.tests if before.modules == modules else {}
    new = [item for name, item in items.items() if name not in known]
    if new:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "taken.json"
            fate = forked(lambda: _measure(new, functions, path), times=60, may_wait=True)
            if fate.word != "survived":
                raise pytest.UsageError(f"without a mutant, {fate.by} fails")
            known |= msgspec.json.decode(path.read_bytes(), type=dict[str, Taken])
        kept.write_bytes(msgspec.json.encode(Measured(modules, known)))
    return known


def _hash(modules: Iterable[str]) -> str:
    """The hash of the texts of these modules."""
    return sha256(b"".join(_path(module).read_bytes() for module in sorted(modules))).hexdigest()


def _path(module: str) -> Path:
    return Path(str(import_module(f"redraft.{module}").__file__))


def _measure(items: Sequence[pytest.Item], functions: Mapping[str, Sequence[str]], path: Path) -> str:
    """Writes what each test takes and calls; returns the first that fails."""
    files = {module: str(_path(module)) for module in functions}
    measure = coverage.Coverage(data_file=None, include=list(files.values()), config_file=False)
    seconds: dict[str, float] = {}
    starts: dict[str, bool] = {}

    @contextmanager
    def timed(item: pytest.Item) -> Iterator[None]:
        measure.switch_context(item.nodeid)
        began, others = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)
        yield
        seconds[item.nodeid] = round(time.process_time() - began, 3)
        starts[item.nodeid] = resource.getrusage(resource.RUSAGE_CHILDREN) != others

    measure.start()
    failed = failing_test(items, timed)
    measure.stop()
    calls: defaultdict[str, set[str]] = defaultdict(set)
    for module, file in files.items():
        contexts = measure.get_data().contexts_by_lineno(file)
        for function, own in _lines(module, functions[module]):
            for test in {test for line in own & contexts.keys() for test in contexts[line]}:
                calls[test].add(f"{module}:{function}")
    taken = {test: Taken(lasted, starts[test], frozenset(calls[test])) for test, lasted in seconds.items()}
    path.write_bytes(msgspec.json.encode(taken))
    return failed


def _lines(module: str, functions: Sequence[str]) -> Iterator[tuple[str, set[int]]]:
    """The lines within each function, without that of its name."""
    home = import_module(f"redraft.{module}")
    for name in functions:
        code = function_of(home, name).__code__
        own = {line for each in codes(code) for _, _, line in each.co_lines() if line}
        yield name, own - {code.co_firstlineno}
