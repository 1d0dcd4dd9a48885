"""Tokens for programs and people who speak to the HTTP API of a store: kept as hashes, with scopes and an end."""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar, get_args

import msgspec

from redraft.events.errors import InputError
from redraft.events.messages.content import DraftRef
from redraft.events.messages.plan import ACTOR_ROLES
from redraft.events.small_tables import Tables, Transactions
from redraft.events.store.event_store import thread
from redraft.events.subscriptions.subscriptions import Execute

_T = TypeVar("_T")

Scope: TypeAlias = Literal["read", "submit", "operate", "work", "admin"]
"""`read` looks, `submit` begins runs, `operate` steers them and handles dead letters, `work` answers requests to the
actors that the token names; `admin` may do everything."""

CREATE: Final = (
    """CREATE TABLE IF NOT EXISTS redraft_tokens (
        id text PRIMARY KEY, name text NOT NULL, hash text NOT NULL, scopes text NOT NULL,
        created double precision NOT NULL, expires double precision, revoked double precision
    )""",
    "CREATE TABLE IF NOT EXISTS redraft_claims (id text PRIMARY KEY, ends double precision NOT NULL)",
)
"""Creates the tables, in any database. They hold no secret: a token cannot be made of its hash."""

CLAIMED: Final = 120.0
"""Seconds after which a claim ends whose server neither used the link nor gave it back: it was killed."""

_WORK: Final = "work:"
"""The prefix of an actor stored among the scopes."""

_LINK: Final = "link:"
"""The prefix of a link's purpose, stored there as JSON in base64."""

_COLUMNS: Final = "id, name, scopes, created, expires, revoked"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@+-]{0,63}")
_FORM: Final = re.compile(r"rdt_([0-9a-f]{8})_([0-9a-f]{64})")


class Link(msgspec.Struct, frozen=True):
    """The purpose of a link: to decide on one draft of a run, or, without a draft, to read the run.

    `step` is the path of the step that asks about the draft.
    """

    run: str
    draft: DraftRef | None = None
    anonymous: bool = False
    step: str = ""


class Token(msgspec.Struct, frozen=True):
    """A token, without its secret. Times are UTC; `expires` is None for one without an end.

    `link` says what it is for where it is a link: such a token has no scope.
    `actors` are the roles (`critic`) and actors (`critic.judge`) that one with the scope `work` may work for.
    """

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    actors: tuple[str, ...] = ()
    link: Link | None = None

    def is_valid(self, now: datetime) -> bool:
        """Returns whether it may be used at this time."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class Claim(msgspec.Struct, frozen=True):
    """The use of a link by one request, which nobody else has until it `ends` (seconds since 1970)."""

    token: str
    ends: float


class Tokens:
    """The tokens of a store. Every method raises StoreError when it cannot be done.

    `are_there` says without making anything whether there may be some; `random` returns so many random bytes.
    """

    def __init__(
        self,
        tables: Tables,
        clock: Callable[[], datetime],
        random: Callable[[int], bytes],
        are_there: Callable[[], bool],
    ) -> None:
        self._tables = Transactions(tables, thread("redraft-tokens"))
        self._clock = clock
        self._random = random
        self._are_there = are_there

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._tables.close()

    async def create(
        self, name: str, scopes: Iterable[str], expires: datetime | None, actors: Iterable[str] = ()
    ) -> tuple[Token, str]:
        """Makes a token; returns it, and its text, which nobody can tell later.

        Raises InputError for a name, a scope or an actor that is none, for the scope `work` without actors or actors
        without it, and an end that is over.
        """
        allowed, chosen = _check_scopes(scopes), _check_actors(actors)
        if ("work" in allowed) != bool(chosen):
            raise InputError("the scope work and the actors to work for go together: --scope work --actor critic.judge")
        kept = " ".join([*allowed, *(_WORK + each for each in chosen)])
        return await self._make(name, kept, expires)

    async def create_link(self, name: str, link: Link, expires: datetime) -> tuple[Token, str]:
        """Makes a token that is for one thing; `name` is whose decision it is, or who gave it away to read.

        Returns it, and its text, which nobody can tell later. Raises InputError as `create` does.
        """
        return await self._make(name, _LINK + b64encode(msgspec.json.encode(link)).decode(), expires)

    async def _make(self, name: str, kept: str, expires: datetime | None) -> tuple[Token, str]:
        now = self._clock()
        if expires is not None and expires <= now:
            raise InputError(f"the token would have ended at {expires:%Y-%m-%d %H:%M} UTC; give a later end")
        key = self._random(4).hex()
        text = f"rdt_{key}_{self._random(32).hex()}"
        row = key, _check_name(name), _hash(text), kept, _seconds(now), _seconds(expires), None
        await self._tables.run(lambda execute: execute("INSERT INTO redraft_tokens VALUES (?, ?, ?, ?, ?, ?, ?)", row))
        return _token((key, name, kept, _seconds(now), _seconds(expires), None)), text

    async def all(self) -> Sequence[Token]:
        """Returns every token, the newest first, with those that were revoked or have ended."""
        if not await asyncio.to_thread(self._are_there):
            return ()
        sql = f"SELECT {_COLUMNS} FROM redraft_tokens ORDER BY created DESC, id"  # noqa: S608
        return [_token(row) for row in await self._tables.run(lambda execute: execute(sql, ()))]

    async def find(self, text: str) -> Token | None:
        """Returns the token of this text; None when there is none that may be used now."""
        form = _FORM.fullmatch(text)
        if form is None or not await asyncio.to_thread(self._are_there):
            return None
        sql = f"SELECT {_COLUMNS}, hash FROM redraft_tokens WHERE id = ?"  # noqa: S608
        for row in await self._tables.run(lambda execute: execute(sql, (form[1],))):
            found = _token(row[:-1])
            if compare_digest(row[-1], _hash(text)) and found.is_valid(self._clock()):
                return found
        return None

    async def revoke(self, token: str) -> Token:
        """Revokes the token with this id, for good. Raises InputError when there is none."""

        def revoked(execute: Execute) -> list[tuple[Any, ...]]:
            sql = f"UPDATE redraft_tokens SET revoked = coalesce(revoked, ?) WHERE id = ? RETURNING {_COLUMNS}"  # noqa: S608
            return execute(sql, (_seconds(self._clock()), token))

        found = await self._tables.run(revoked) if await asyncio.to_thread(self._are_there) else []
        if not found:
            raise InputError(f"no token has the id {token!r}; `redraft token list` shows those that there are")
        return _token(found[0])

    async def claim(self, token: str) -> Claim | None:
        """Claims the use of a link, by its id: of all who do so, in any process, one gets it, and the others None.

        It goes on for `CLAIMED` seconds, unless it is given back. A link that was revoked cannot be claimed.
        """
        now = self._clock().timestamp()
        values = now + CLAIMED, token, now

        def claimed(execute: Execute) -> list[tuple[Any, ...]]:
            return execute(
                "INSERT INTO redraft_claims SELECT id, ? FROM redraft_tokens WHERE id = ? AND revoked IS NULL "
                "ON CONFLICT (id) DO UPDATE SET ends = excluded.ends WHERE redraft_claims.ends <= ? RETURNING ends",
                values,
            )

        return Claim(token, values[0]) if await self._tables.run(claimed) else None

    async def give_back(self, claim: Claim) -> None:
        """Ends a claim whose link was not used, so that it can be used again."""
        sql, values = "DELETE FROM redraft_claims WHERE id = ? AND ends = ? RETURNING id", (claim.token, claim.ends)
        await self._tables.run(lambda execute: execute(sql, values))


def _hash(text: str) -> str:
    """Returns what is kept of a token: its secret has 256 random bits, which nobody can guess from a plain hash."""
    return sha256(text.encode()).hexdigest()


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a token: give up to 64 letters, digits, blanks and . _ @ + -, such as ann"
        )
    return name


def _check_scopes(scopes: Iterable[str]) -> tuple[Scope, ...]:
    given = set(scopes)
    known: Sequence[Scope] = get_args(Scope)
    if wrong := given.difference(known):
        raise InputError(f"there is no scope {min(wrong)!r}; there are {', '.join(known)}")
    if not given:
        raise InputError(f"give what the token is for, with --scope: {', '.join(known)}")
    return tuple(each for each in known if each in given)


def _check_actors(actors: Iterable[str]) -> tuple[str, ...]:
    for each in (found := tuple(dict.fromkeys(actors))):
        role, dot, name = each.partition(".")
        if role not in ACTOR_ROLES or bool(dot) != bool(name) or len(each.split()) != 1:
            raise InputError(f"{each!r} is nobody to work for: give a role, or an actor such as critic.judge")
    return found


def _token(row: Sequence[Any]) -> Token:
    token, name, scopes, created, expires, revoked = row
    kept = scopes.split()
    actors = tuple(each.removeprefix(_WORK) for each in kept if each.startswith(_WORK))
    own = tuple(each for each in kept if ":" not in each)
    told = [b64decode(each.removeprefix(_LINK)) for each in kept if each.startswith(_LINK)]
    link = msgspec.json.decode(told[0], type=Link) if told else None
    times = _time(created), _maybe(expires), _maybe(revoked)
    return Token(token, name, own, *times, actors, link)


def _maybe(seconds: float | None) -> datetime | None:
    return None if seconds is None else _time(seconds)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()
