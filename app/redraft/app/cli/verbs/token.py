"""`redraft token`: who may speak to the HTTP API, and what they may do there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, TypeVar

import typer

from redraft.actors.values import parse_duration
from redraft.app.cli.shared.options import JsonOption, StoreOption
from redraft.app.cli.shared.output import print_result
from redraft.app.cli.shared.reading import ask_server
from redraft.app.process.times import moment
from redraft.app.settings.settings import read_settings
from redraft.events.backends import open_tokens
from redraft.events.errors import InputError
from redraft.events.tokens import Token, Tokens

T = TypeVar("T")

NEVER: Final = "never"

APP: Final = typer.Typer(
    help="Create, list and revoke the tokens with which programs and people speak to `redraft serve`.",
    epilog="Example: redraft token create ann --scope read --scope operate",
)


@APP.command("create", epilog="Example: redraft token create build-server --scope read --scope submit --expires 30d")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is: the name that events have.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(metavar="SCOPE", help="What it is for: read, submit, operate, work or admin; may be repeated."),
    ] = None,
    actor: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE.ACTOR", help="With --scope work: whom it may work for; or a whole role."),
    ] = None,
    expires: Annotated[str, typer.Option(metavar="TIME", help="When it ends: 30d, 12h, 2027-01-31, or never.")] = "90d",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Make a token, and print it: it is shown this once, and only a hash of it is kept.

    `read` looks, `submit` begins runs, `operate` steers them and handles dead letters, `work` takes and answers the
    requests of the actors that are named, `admin` may do everything.
    """
    until = _end_of(expires, datetime.now(UTC))
    token, text = _ask(store, lambda tokens: tokens.create(name, scope or (), until, actor or ()))
    print_result({"token": text, "id": token.id, "expires": token.expires}, [text], json=json)


@APP.command("list", epilog="Example: redraft token list --json")
def list_(store: StoreOption = None, json: JsonOption = False) -> None:
    """List the tokens, the newest first, with those that were revoked or have ended; never what they are."""
    found = _ask(store, lambda tokens: tokens.all())
    now = datetime.now(UTC)
    print_result(list(found), [_line(each, now) for each in found], json=json, nothing="there are no tokens")


@APP.command("revoke", epilog="Example: redraft token revoke 3f9a2c41")
def revoke(
    token: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Make a token useless, for good. A server that knows it heeds that within a second."""
    found = _ask(store, lambda tokens: tokens.revoke(token))
    print_result(found, [f"revoked {found.id}, {found.name}"], json=json)


def _end_of(text: str, now: datetime) -> datetime | None:
    """Returns the time that an end names, from now on. Raises InputError."""
    if text.strip() == NEVER:
        return None
    seconds = parse_duration(text.strip()) if text.strip()[-1:].isalpha() else None
    try:
        return moment(text, now, "--expires") if seconds is None else now + timedelta(seconds=seconds)
    except OverflowError:
        raise InputError(f"--expires {text} is too far away; write never") from None


def _line(token: Token, now: datetime) -> str:
    if token.revoked is not None:
        state = f"revoked {token.revoked:%Y-%m-%d %H:%M} UTC"
    elif token.expires is None:
        state = "no end"
    else:
        state = f"{'ends' if token.is_valid(now) else 'ended'} {token.expires:%Y-%m-%d %H:%M} UTC"
    return f"{token.id}  {token.name}  {' '.join([*token.scopes, *token.actors])}  {state}"


def _ask(store: str | None, question: Callable[[Tokens], Awaitable[T]]) -> T:
    return ask_server(open_tokens(read_settings(store=store).store), question)
