"""What tests of the dashboard share: a store, a server that works, and a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from tests.app.dashboard.browser import browser
from tests.app.dashboard.workflows import ASKED
from tests.app.server.served import LOOP, Served, served


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder: the present one, with the workflow `loop`, and where the store is."""
    home = tmp_path_factory.mktemp("dashboard")
    (home / "loop.py").write_text(LOOP)
    (home / "asked.py").write_text(ASKED)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{home / 'store.db'}")
        yield home


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    """A server that works on what it is given."""
    with served(folder, "loop.py:loop", "asked.py") as running:
        yield running


@pytest_asyncio.fixture
async def chromium() -> AsyncIterator[Browser]:
    """A browser; see `browser`."""
    async with browser() as started:
        yield started
