"""The temporary copy in which a draft is tested: the tests, or a whole project, with the draft in its place.

Of a draft of several files the tests that lie among them are the original ones, whatever it made of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import Final, TypeAlias

from redraft.events.errors import PermanentError
from redraft.events.messages.folders import File

ACTOR: Final = "pytest"
FILES: Final = 10_000
"""The largest number of files to copy."""
BYTES: Final = 256 * 1024 * 1024
"""The largest number of bytes to copy."""

_LEFT_OUT: Final = shutil.ignore_patterns(
    ".git", ".hg", ".venv", "venv", ".tox", ".nox", "node_modules", "__pycache__", ".*_cache", ".hypothesis"
)


@dataclass(frozen=True, slots=True)
class FilesOf:
    """The files of a draft, and those of its brief, by path."""

    files: Mapping[str, File]
    before: Mapping[str, File]


Code: TypeAlias = str | FilesOf
"""A draft to test: the text of one module, or several files."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of the tests and of the draft (a file or folder) in the copied project, and its module search path."""

    tests: tuple[Path, ...]
    import_from: tuple[Path, ...]
    draft: Path


@dataclass(slots=True)
class _Budget:
    """Copies files until there are too many or they are too large."""

    files: int = FILES
    bytes: int = BYTES

    def copy(self, source: str, target: str) -> str:
        self.files -= 1
        self.bytes -= os.lstat(source).st_size
        if self.files < 0 or self.bytes < 0:
            raise PermanentError(
                f"{ACTOR}: more than {FILES:,} files or {BYTES:,} bytes to copy; name a smaller folder"
            )
        return str(shutil.copy2(source, target, follow_symlinks=False))


def lay_out(tree: Path, code: Code, here: Path, tests: tuple[str, ...], place: PurePath, project: str) -> Layout:
    """Copies what is needed into the new folder `tree` and writes the draft at `place`, a path inside it.

    `project` is a folder whose whole content is copied, and `tests` are paths in it; without one, `tests` are paths in
    `here` and only they are copied: a folder whole, a file with what is in its folder (alone, when it lies in `here`),
    and the `conftest.py` and `__init__.py` of the folders above. Raises PermanentError when a path is not there or
    leads out, or when there is too much to copy.
    """
    budget = _Budget()
    try:
        if project:
            root = _require_existing(here, project, "project")
            _copy(root, tree, budget)
            found = tuple(_require_existing(tree, each, "tests", said=project) for each in tests)
            originals = tuple(_require_existing(root, each, "tests", said=project) for each in tests)
        else:
            tree.mkdir()
            found = tuple(_copy_test(here, each, tree, budget) for each in tests)
            originals = tuple(_require_existing(here, each, "tests") for each in tests)
        if isinstance(code, str):
            draft = tree / _find_place(tree, place, project)
            _write(tree, draft, code)
        else:
            draft = tree / place
            _write_files(tree, draft, code, keep_tests=any(draft.is_relative_to(each) for each in found))
            for source, target in zip(originals, found, strict=True):
                if not draft.is_relative_to(target):
                    _put_back(tree, source, target, budget)
    except (OSError, shutil.Error) as error:
        raise PermanentError(
            f"{ACTOR}: the tests cannot be copied: {str(error)[:200]}; correct the option tests"
        ) from None
    return Layout(found, _import_from(tree, None if isinstance(code, str) else draft), draft)


def _import_from(tree: Path, folder: Path | None) -> tuple[Path, ...]:
    """Returns where modules are imported from, `tree` last; of a draft that is a package, from the folder around it."""
    is_package = folder is not None and (folder / "__init__.py").exists()
    inner = () if folder is None else (folder.parent,) if is_package else (folder / "src", folder)
    return tuple(dict.fromkeys(each for each in (*inner, tree / "src", tree) if each.is_dir()))


def _copy_test(here: Path, named: str, tree: Path, budget: _Budget) -> Path:
    source = _require_existing(here, named, "tests")
    inside = source.relative_to(here) if source.is_relative_to(here) else Path(source.name)
    target = tree / inside
    for above in reversed(inside.parents):  # from the folder that they share down to the one that holds it
        for each in ("conftest.py", "__init__.py"):
            if (here / above / each).is_file():
                _copy(here / above / each, tree / above / each, budget)
    if source.is_file() and len(inside.parts) > 1:
        _copy(source.parent, target.parent, budget)
    else:
        _copy(source, target, budget)
    return target


def _copy(source: Path, target: Path, budget: _Budget) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=_LEFT_OUT, copy_function=budget.copy, dirs_exist_ok=True)
    else:
        budget.copy(str(source), str(target))


def _require_existing(folder: Path, named: str, option: str, said: str = "") -> Path:
    path = (folder / named).resolve()
    if not named.strip() or not path.exists():
        raise PermanentError(
            f"{ACTOR}: option {option} names {named!r}, which is not in {said or folder}; correct the path"
        )
    if said and not path.is_relative_to(folder.resolve()):
        raise PermanentError(f"{ACTOR}: option {option} names {named!r}, which is outside the project {said}")
    return path


def _find_place(tree: Path, place: PurePath, project: str) -> PurePath:
    """The draft's place in the copy: below `src` where a project has its packages there.

    Without a project the folders above the draft are made packages, so that no installed one is tested in its stead.
    """
    if project:
        return PurePath("src") / place if (tree / "src" / place.parts[0]).exists() else place
    for above in place.parents[:-1]:
        (tree / above).mkdir(parents=True, exist_ok=True)
        (tree / above / "__init__.py").touch()
    return place


def _write_files(tree: Path, folder: Path, code: FilesOf, *, keep_tests: bool) -> None:
    """Writes a draft's files, and takes out those of its brief that it has no more; tests are the brief's if kept."""
    files = {path: file for path, file in code.files.items() if not (keep_tests and _is_test(path))}
    files |= {path: file for path, file in code.before.items() if keep_tests and _is_test(path)}
    for path in code.before.keys() - files.keys():
        if (folder / path).resolve().is_relative_to(tree.resolve()):
            (folder / path).unlink(missing_ok=True)
    for path, file in files.items():
        target = folder / path
        _write(tree, target, file.content)
        target.chmod(0o755 if file.executable else 0o644)


def _is_test(path: str) -> bool:
    """Returns whether pytest takes a file for tests by its name, or for what belongs to them."""
    name = PurePath(path).name
    return name == "conftest.py" or any(fnmatch(name, pattern) for pattern in ("test_*.py", "*_test.py"))


def _put_back(tree: Path, source: Path, target: Path, budget: _Budget) -> None:
    """Copies tests once more, over what a draft that has them among its files made of them."""
    _clear(tree, target)
    _copy(source, target, budget)


def _clear(tree: Path, target: Path) -> None:
    """Takes out what stands in the place of a file or folder in the copy, and a file where one above it should be.

    Raises PermanentError for a place that is reached by a link that leads out of the copy: nothing there is ours.
    """
    if not target.parent.resolve().is_relative_to(tree.resolve()):
        raise PermanentError(
            f"{ACTOR}: {str(target.relative_to(tree))!r} is reached by a link that leads out of the project; copy it in"
        )
    for above in target.relative_to(tree).parents[:-1]:
        if (tree / above).is_file():
            (tree / above).unlink()
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def _write(tree: Path, target: Path, code: str | bytes) -> None:
    """Writes the draft, never through a link that leads out of the copy."""
    _clear(tree, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(code.encode() if isinstance(code, str) else code)
