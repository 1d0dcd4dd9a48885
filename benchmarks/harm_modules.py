"""Modules of the standard library for `harm.py`: refined with `code`, their names compared, and their own tests run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

LIBRARY: Final = Path(sysconfig.get_path("stdlib"))
LONGEST: Final = 300
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
    """A module that was refined: the lines that changed, the names that are gone, and its tests before and after."""

    name: str
    outcome: str
    lines: int
    lost: tuple[str, ...]
    passed_before: bool | None
    passed_after: bool | None

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


def try_modules(count: int, seed: int) -> dict[str, Any]:
    """Refines modules, each with `redraft run`; runs the tests of each that changed. Returns the figures."""
    with tempfile.TemporaryDirectory() as folder:
        tried = [_try_module(name, Path(folder)) for name in find_modules(count, seed)]
    for each in tried:
        if each.lost or each.is_broken:
            print(each, file=sys.stderr)
    return {
        "modules": len(tried),
        "with_tests": sum(bool(_find_test(each.name)) for each in tried),
        "changed": sum(each.lines > 0 for each in tried),
        "changed_and_tested": sum(each.passed_before is True for each in tried),
        "lines_changed": sum(each.lines for each in tried),
        "lost_a_name": sum(bool(each.lost) for each in tried),
        "broke_a_test": sum(each.is_broken for each in tried),
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
    done = subprocess.run([*command, "--store", f"sqlite:///{own / 'harm.db'}"], capture_output=True, text=True)
    ended = json.loads(done.stdout) if done.stdout else {"outcome": done.stderr.strip()}
    if not target.exists() or (before := source.read_bytes()) == (after := target.read_bytes()):
        return Tried(name, ended["outcome"], 0, (), None, None)
    lines = len(set(before.splitlines()) ^ set(after.splitlines()))
    lost = _read_names(name, source) - _read_names(name, target)
    tests = _find_test(name)
    passes = [_passes(tests, each) if tests else None for each in (None, own)]
    return Tried(name, ended["outcome"], lines, tuple(sorted(lost)), *passes)


def _read_names(name: str, path: Path) -> frozenset[str]:
    """The names of a module once it is imported."""
    done = subprocess.run([sys.executable, "-c", _NAMES, name, str(path)], capture_output=True, text=True, cwd="/")
    return frozenset(json.loads(done.stdout)) if done.returncode == 0 else frozenset()


def _passes(tests: str, folder: Path | None) -> bool:
    """Whether tests pass, with the module in `folder` before that of the standard library."""
    environment = {**os.environ, **({"PYTHONPATH": str(folder)} if folder else {})}
    with tempfile.TemporaryDirectory() as here:
        command = [sys.executable, "-m", "test", "-q", tests.removeprefix("test.")]
        try:
            done = subprocess.run(command, capture_output=True, cwd=here, env=environment, timeout=LONGEST, check=False)
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0
