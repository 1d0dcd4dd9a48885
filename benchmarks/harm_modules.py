"""Modules of the standard library for `harm.py`: refined with `code`, their names compared, and their own tests run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from symtable import symtable
from typing import Any, Final

LIBRARY: Final = Path(sysconfig.get_path("stdlib"))
LONGEST: Final = 120
"""Seconds that a module's tests may take."""

_NAMES: Final = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location(sys.argv[1], sys.argv[2])
module = importlib.util.module_from_spec(spec)
sys.modules[sys.argv[1]] = module
spec.loader.exec_module(module)
print(json.dumps(sorted(vars(module))))
"""


@dataclass(frozen=True, slots=True)
class Tried:
    """A module that was refined: the lines that changed, the names that are gone, and its tests before and after.

    Tests that pass after are taken to have passed before.
    `got_worse`: its run was accepted with a lower score than that of the module as it was.
    """

    name: str
    outcome: str
    got_worse: bool
    has_tests: bool
    lines: int = 0
    lost: tuple[str, ...] = ()
    passed_before: bool | None = None
    passed_after: bool | None = None

    @property
    def is_broken(self) -> bool:
        return self.passed_before is True and self.passed_after is False


def find_modules(count: int, seed: int) -> list[str]:
    """Modules of the standard library, those that have tests first: all are drawn with a seed."""
    every = sorted(path.stem for path in LIBRARY.glob("*.py") if not path.stem.startswith("__"))
    tested = [name for name in every if _find_test(name)]
    random = Random(seed)
    drawn = random.sample(tested, min(count, len(tested)))
    rest = [name for name in every if name not in set(drawn)]
    return [*drawn, *random.sample(rest, max(0, min(count - len(drawn), len(rest))))]


def try_modules(count: int, skip: int, seed: int, record: Path) -> dict[str, Any]:
    """Refines modules, each with `redraft run`; runs the tests of each that changed. Returns the figures.

    Each module has a line in `record` as soon as it was tried; the first `skip` are taken from there.
    """
    lines = record.read_text(encoding="utf-8").splitlines()[:skip] if skip else []
    with record.open("w", encoding="utf-8") as file, tempfile.TemporaryDirectory() as folder:
        file.writelines(f"{line}\n" for line in lines)
        for name in find_modules(count, seed)[len(lines) :]:
            line = json.dumps(asdict(_try_module(name, Path(folder))))
            print(line, file=file, flush=True)
            print(line, file=sys.stderr, flush=True)
    return _count([Tried(**json.loads(line)) for line in record.read_text(encoding="utf-8").splitlines()])


def _count(tried: Sequence[Tried]) -> dict[str, Any]:
    return {
        "modules": len(tried),
        "with_tests": sum(each.has_tests for each in tried),
        "changed": sum(each.lines > 0 for each in tried),
        "changed_and_tests_pass": sum(each.passed_after is True for each in tried),
        "lines_changed": sum(each.lines for each in tried),
        "lost_a_name": sum(bool(each.lost) for each in tried),
        "broke_a_test": sum(each.is_broken for each in tried),
        "accepted_worse": sum(each.got_worse for each in tried),
    }


def _find_test(name: str) -> str:
    """The module of the tests of a module; empty when there is none."""
    test = f"test_{name.strip('_')}"
    return f"test.{test}" if any((LIBRARY / "test" / each).exists() for each in (f"{test}.py", test)) else ""


def _try_module(name: str, folder: Path) -> Tried:
    own = folder / name
    own.mkdir()
    source, target = LIBRARY / f"{name}.py", own / f"{name}.py"
    command = [str(Path(sys.executable).with_name("redraft")), "run", str(source), "--out", str(target), "--json", "-q"]
    done = subprocess.run(
        [*command, "--store", f"sqlite:///{own / 'harm.db'}"], capture_output=True, text=True, check=False
    )
    ended: dict[str, Any] = (
        json.loads(done.stdout) if done.stdout else {"outcome": done.stderr.strip(), "critiques": []}
    )
    scores = [each["critique"]["score"] for each in ended["critiques"] if each["critique"].get("critic") == "ruff"]
    got_worse = ended["outcome"] == "accepted" and scores[-1] < scores[0]
    tests = _find_test(name)
    if not target.exists() or (before := source.read_bytes()) == (after := target.read_bytes()):
        return Tried(name, ended["outcome"], got_worse, bool(tests))
    lines = len(set(before.splitlines()) ^ set(after.splitlines()))
    lost = find_lost(name, source, target)
    passed_before = passed_after = _passes(tests, own) if tests else None
    if passed_after is False:
        target.write_bytes(before)  # in the same place: some tests look for the module's neighbours
        passed_before = _passes(tests, own)
    return Tried(name, ended["outcome"], got_worse, bool(tests), lines, lost, passed_before, passed_after)


def find_lost(name: str, source: Path, target: Path) -> tuple[str, ...]:
    """The names that a module has before and not after, when it is imported and, should it not import, in its text.

    A module that imports before and not after has lost all its names.
    """
    imported = _import_names(name, source)
    lost = imported - _import_names(name, target) if imported else frozenset()
    return tuple(sorted(lost | (_read_names(source) - _read_names(target))))


def _import_names(name: str, path: Path) -> frozenset[str]:
    """The names of a module once it is imported; none when it cannot be imported here."""
    done = subprocess.run(
        [sys.executable, "-c", _NAMES, name, str(path)], capture_output=True, text=True, cwd="/", check=False
    )
    return frozenset(json.loads(done.stdout.splitlines()[-1])) if done.returncode == 0 else frozenset()


def _read_names(path: Path) -> frozenset[str]:
    """The names that a module binds at its own level, as Python's compiler sees them."""
    symbols = symtable(path.read_text(encoding="utf-8"), path.name, "exec").get_symbols()
    return frozenset(each.get_name() for each in symbols if each.is_assigned() or each.is_imported())


def _passes(tests: str, folder: Path) -> bool:
    """Whether tests pass, with the module in `folder` before that of the standard library."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    with tempfile.TemporaryDirectory() as here:
        command = [sys.executable, "-m", "test", "-q", tests.removeprefix("test.")]
        try:
            done = subprocess.run(command, capture_output=True, cwd=here, env=environment, timeout=LONGEST, check=False)
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0
