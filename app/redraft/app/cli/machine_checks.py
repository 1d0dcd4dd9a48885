"""The checks of `redraft doctor` that need neither the log nor the broker."""

from __future__ import annotations

import platform
import shutil
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from redraft.app.cli.check import Check, Level
from redraft.app.models import check_worker, models_of
from redraft.app.settings import Settings, shown_url
from redraft.events.errors import InputError

LITTLE_SPACE: Final = 1024**3
NO_SPACE: Final = 50 * 1024**2
"""Bytes of free disk below which there is a warning, and a failure."""

_PACKAGES: Final = ("eventsourcing", "msgspec", "pydantic", "typer", "rich", "ruff", "proselint", "codespell")


def machine_checks(settings: Settings) -> list[Check]:
    """The checks of Python, of packages, of the model that is set, of SQLite and of the disk."""
    return [_python(), *_packages(), *_model(settings), _sqlite(), *_disk(settings)]


def _python() -> Check:
    return Check("python", "ok", f"{platform.python_version()}, redraft {version('redraft')}, {platform.system()}")


def _packages() -> list[Check]:
    found: dict[str, str] = {}
    missing: list[Check] = []
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            missing.append(Check("packages", "fail", f"{name} is not installed; reinstall redraft"))
    told = ", ".join(f"{name} {number}" for name, number in found.items())
    return [Check("packages", "ok", told), *missing]


def _model(settings: Settings) -> list[Check]:
    """Whether the model of the settings, if there is one, can be asked from here; it is not asked."""
    if not settings.model:
        return []
    try:
        check_worker(("llm",), models_of(settings))
    except InputError as error:
        return [Check("model", "warn", str(error))]
    from redraft.app.builtin.llm_model import cost_of

    told = f"{settings.model} is known, and its key is set"
    if cost_of(1, 1, settings.model, settings.model_url, settings.model_prices.get(settings.model)) is None:
        told += "; nobody knows its price (REDRAFT_MODEL_PRICES), so what it costs is not counted"
    return [Check("model", "ok", told)]


def _sqlite() -> Check:
    told = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < (3, 35):
        return Check("sqlite", "fail", f"{told}; Redraft needs 3.35 or later: use a newer Python")
    return Check("sqlite", "ok", told)


def _disk(settings: Settings) -> list[Check]:
    path = _path(settings)
    if path is None:
        return []
    folder = next(each for each in (_folder(path), *_folder(path).parents) if each.is_dir())
    free = shutil.disk_usage(folder).free
    level: Level = "fail" if free < NO_SPACE else "warn" if free < LITTLE_SPACE else "ok"
    return [Check("disk", level, f"{free / 1024**3:,.1f} GiB free at {folder}")]


def missing(settings: Settings) -> Check | None:
    """Says that the store is not there yet; None when it is, when it is in no file, and where it could not be made."""
    path = _path(settings)
    if path is None or path.exists() or not _folder(path).is_dir():
        return None
    return Check("store", "warn", f"{shown_url(settings.store)} is not there yet; `redraft run` makes it")


def _path(settings: Settings) -> Path | None:
    """The file of the store; None when it is not in a file."""
    scheme, _, path = settings.store.partition(":///")
    return Path(path) if scheme == "sqlite" and path else None


def _folder(path: Path) -> Path:
    """The nearest folder above a path that is there, or what stands in its place."""
    return next(each for each in path.absolute().parents if each.exists())


def size(settings: Settings) -> str:
    """The size of the store with its write-ahead log, after a comma; empty when it is in no file."""
    path = _path(settings)
    if path is None:
        return ""
    size = sum(each.stat().st_size for each in (path, path.with_name(path.name + "-wal")) if each.exists())
    return f", {size / 1024**2:,.1f} MiB" if size >= 1024**2 else f", {size / 1024:,.0f} KiB"
