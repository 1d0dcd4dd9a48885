"""A link's use is claimed by one alone, on every database that keeps tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pytest

from redraft.events.backends import open_tokens
from redraft.events.tokens import CLAIMED, Link, Tokens

Opening: TypeAlias = Callable[[], Tokens]
"""Opens the tokens of a store on a connection of their own, as another process does."""


@pytest.fixture(params=["sqlite", "postgres"])
async def opening(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opening]:
    is_postgres = request.param == "postgres"
    url = request.getfixturevalue("postgres_url") if is_postgres else f"sqlite:///{tmp_path / 'store.db'}"
    opened: list[Tokens] = []

    def another() -> Tokens:
        opened.append(open_tokens(url))
        return opened[-1]

    async with AsyncExitStack() as stack, asyncio.timeout(60):
        stack.push_async_callback(lambda: asyncio.gather(*(each.__aexit__() for each in opened)))
        yield another


async def made(tokens: Tokens) -> str:
    """The id of a new link."""
    return (await tokens.create_link("ann", Link("run"), datetime.now(UTC) + timedelta(days=1)))[0].id


async def test_of_many_who_claim_a_link_at_the_same_moment_one_gets_it(opening: Opening) -> None:
    each = [opening() for _ in range(4)]
    link = await made(each[0])
    claims = await asyncio.gather(*(tokens.claim(link) for tokens in each for _ in range(5)))
    assert len([claim for claim in claims if claim is not None]) == 1


async def test_a_claim_that_is_given_back_leaves_the_link_as_it_was(opening: Opening) -> None:
    tokens = opening()
    link = await made(tokens)
    claim = await tokens.claim(link)
    assert claim is not None
    await tokens.give_back(claim)
    again = await opening().claim(link)
    assert again is not None
    await tokens.give_back(claim)  # it is another's now
    assert await tokens.claim(link) is None


async def test_a_link_that_was_revoked_is_not_claimed_and_stays_revoked(opening: Opening) -> None:
    tokens = opening()
    link, other = await made(tokens), await made(tokens)
    await tokens.revoke(link)
    assert await tokens.claim(link) is None
    claim = await tokens.claim(other)
    assert claim is not None
    await tokens.revoke(other)
    await tokens.give_back(claim)
    assert await tokens.claim(other) is None
    assert all(each.revoked for each in await tokens.all())


async def test_the_claim_of_a_server_that_was_killed_ends(tmp_path: Path) -> None:
    now = [datetime.now(UTC)]
    async with open_tokens(f"sqlite:///{tmp_path / 'store.db'}", lambda: now[0]) as tokens:
        link = await made(tokens)
        assert await tokens.claim(link)
        now[0] += timedelta(seconds=CLAIMED - 1)
        assert await tokens.claim(link) is None
        now[0] += timedelta(seconds=2)
        assert await tokens.claim(link)
