"""`redraft token`: who may speak to the HTTP API, and what they may do there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, TypeAlias, TypeVar

import typer

from redraft.actors.values import parse_duration
from redraft.app.cli.shared.options import JsonOption, RunArgument, StoreOption
from redraft.app.cli.shared.output import print_result
from redraft.app.cli.shared.reading import ask_server, run_quietly
from redraft.app.process.times import moment
from redraft.app.runs.steering import draft_meant, refuse, step_meant
from redraft.app.settings.settings import read_settings
from redraft.app.subscribing.misfits import folded
from redraft.app.wiring.local import open_readonly
from redraft.events.backends import open_tokens
from redraft.events.errors import InputError
from redraft.events.messages.commands import ApproveDraft
from redraft.events.messages.envelope import Recorded
from redraft.events.tokens import Link, Token, Tokens
from redraft.projections.read_models.runs_query import find_run

T = TypeVar("T")
UrlOption: TypeAlias = Annotated[
    str, typer.Option(metavar="URL", help="Where `redraft serve` is reached (default: its address in the settings).")
]

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


@APP.command("invite", epilog="Example: redraft token invite last --for ann --url https://redraft.example.com")
def invite(
    run: RunArgument,
    person: Annotated[str, typer.Option("--for", metavar="NAME", help="Whose decision it is, as the record has it.")],
    draft: Annotated[int | None, typer.Option(metavar="N", help="This draft (default: the one that waits).")] = None,
    expires: Annotated[str, typer.Option(metavar="TIME", help="When it ends: 3d, 12h, 2027-01-31.")] = "3d",
    url: UrlOption = "",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Make a link by which somebody without an account approves or rejects one draft, once.

    It is for this very text alone, and for the step that asks now. Whoever has the link decides in the name of NAME:
    send it to nobody else.
    """

    def link(past: Sequence[Recorded]) -> Link:
        meant = draft_meant(past, draft)
        if not meant.version:
            raise InputError(f"run {past[0].run} waits for nobody's decision; name a draft with --draft")
        run_state = folded(past)
        step = step_meant(past)
        refuse(run_state, ApproveDraft(past[0].run, meant, "", person, step=step), read_settings(store=store))
        return Link(past[0].run, meant, step=step)

    _give_link(store, run, link, person, expires, url, json=json)


@APP.command("share", epilog="Example: redraft token share last --anonymous --expires 30d")
def share(
    run: RunArgument,
    anonymous: Annotated[bool, typer.Option("--anonymous", help="Without the names of people.")] = False,
    expires: Annotated[str, typer.Option(metavar="TIME", help="When it ends: 7d, 12h, 2027-01-31.")] = "7d",
    url: UrlOption = "",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Make a link by which anybody who has it reads the audit page of one run, as it is when they look.

    With --anonymous the people who began, steered or approved the run are numbered; names within texts stay.
    """
    _give_link(store, run, lambda past: Link(past[0].run, None, anonymous), "reader", expires, url, json=json)


def _give_link(
    store: str | None,
    run: str,
    link: Callable[[Sequence[Recorded]], Link],
    name: str,
    expires: str,
    url: str,
    *,
    json: bool,
) -> None:
    """Makes a link for a run, and prints it. Raises InputError, NoSuchRun."""
    settings = read_settings(store=store)
    until = _end_of(expires, datetime.now(UTC))
    if until is None:
        raise InputError("--expires never: a link has an end; give one, such as 30d")

    async def made() -> tuple[Token, str]:
        async with open_readonly(settings) as runtime, open_tokens(settings.store) as tokens:
            past = await runtime.store.read((await find_run(runtime.views, run)).run)
            return await tokens.create_link(name, link(past), until)

    token, text = run_quietly(made())
    chosen = settings.http
    place = url.rstrip("/") or f"{'https' if chosen.tls_cert else 'http'}://{chosen.host}:{chosen.port}"
    address = f"{place}/links/{text}"
    print_result({"link": address, "id": token.id, "expires": token.expires}, [address], json=json)


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
    return f"{token.id}  {token.name}  {' '.join([*token.scopes, *token.actors]) or _purpose(token)}  {state}"


def _purpose(token: Token) -> str:
    """Returns what a link is for."""
    if token.link is None:
        return "nothing"
    if token.link.draft is None:
        return f"reads run {token.link.run}"
    return f"decides on draft {token.link.draft.version} of run {token.link.run}"


def _ask(store: str | None, question: Callable[[Tokens], Awaitable[T]]) -> T:
    return ask_server(open_tokens(read_settings(store=store).store), question)
