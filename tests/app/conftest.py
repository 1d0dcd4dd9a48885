"""What tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder: the present one, and where the store is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRAFT_STORE", f"sqlite:///{tmp_path / 'store.db'}")
    return tmp_path


@pytest.fixture(params=["sqlite", "postgresql"])
def each_store(request: pytest.FixtureRequest) -> str:
    """The URL of a store in PostgreSQL; empty for one in SQLite, in the folder of a deployment."""
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgresql" else ""
