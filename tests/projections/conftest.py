"""Where the read models of a test lie: the same tests for every kind of place."""

from __future__ import annotations

from pathlib import Path

import pytest

from redraft.projections.engine.storage import StorageLocation


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StorageLocation:
    """A place that several processes can share, empty."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return tmp_path / "views.db"


@pytest.fixture(params=["memory", "postgres"])
def anywhere(request: pytest.FixtureRequest) -> StorageLocation:
    """A place of one test's own, empty."""
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else None
