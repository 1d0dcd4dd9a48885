"""The effects of a subscriber that is killed at random moments are exactly the events, in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.chaos.killed_subscriber import killed_while_they_write


def store_in(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    return f"sqlite:///{folder / 'log.db'}" if kind == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_subscriber_is_killed_while_eight_write(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    await killed_while_they_write(store_in(kind, request, tmp_path), tmp_path, 480, 6, tell, seed=1)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_subscriber_is_killed_two_hundred_times_while_eight_write_ten_thousand_events(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    again = await killed_while_they_write(store_in(kind, request, tmp_path), tmp_path, 10_000, 200, tell, seed=2)
    assert again, "no kill came between an effect and its position"
