"""A store with a client, on SQLite and PostgreSQL, and the named subscriptions that are kept beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.app.subscribers import World, world

from redraft.events.backends import open_subscriptions
from redraft.events.subscriptions.subscriptions import Subscriptions


@pytest.fixture(params=["sqlite", "postgres"])
async def there(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with world(request.param, request, tmp_path) as made:
        yield made


@pytest.fixture
async def names(there: World) -> AsyncIterator[Subscriptions]:
    async with open_subscriptions(there.url) as opened:
        yield opened
