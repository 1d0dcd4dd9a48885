"""`redraft webhook`: one process that sends every event to a URL."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.naming import (
    AttemptsOption,
    FromOption,
    RunsOption,
    SubscriptionOption,
    TagsOption,
    TypesOption,
    WorkflowsOption,
    start_of,
    wanted_of,
)
from redraft.app.cli.options import (
    PATIENCE,
    HealthOption,
    JsonLogOption,
    PatienceOption,
    StoreOption,
    TiedOption,
)

if TYPE_CHECKING:
    from redraft.app.delivery import Handler
    from redraft.app.feed import StoreFeed

EXAMPLE: Final = """\b
Example:
  redraft webhook https://example.com/hook --name ours --type run.ended --secret-env HOOK_SECRET
"""


def webhook(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where events are sent: https://host/path.")],
    name: SubscriptionOption,
    secret_env: Annotated[
        str, typer.Option(metavar="VAR", help="The environment variable with the secret that signs.")
    ] = "",
    types: TypesOption = None,
    run: RunsOption = None,
    workflow: WorkflowsOption = None,
    tag: TagsOption = None,
    start: FromOption = "now",
    attempts: AttemptsOption = 10,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How long one request may take.")] = 30.0,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Also to addresses that are not public: this machine, your network.")
    ] = False,
    store: StoreOption = None,
    health_file: HealthOption = None,
    patience: PatienceOption = PATIENCE,
    json: JsonLogOption = False,
    tied: TiedOption = False,
) -> int:
    """Send each event to a URL by POST, in order, signed; go on where it was.

    An answer of 2xx means that it was taken. Otherwise it is sent again after 1 s, 2 s, 4 s, up to 5 min, or when
    `Retry-After` says so; after the last attempt it is parked. Redirects are not followed.
    """
    from redraft.app.cli.process import Serving, serve
    from redraft.app.delivery import Retry
    from redraft.app.serving import Served, serve_name
    from redraft.app.settings import read_settings, shown_url
    from redraft.app.webhook import checked_url, open_webhook, place_of
    from redraft.app.webhook_address import refuse_private
    from redraft.events.subscription_book import checked_name

    checked_name(name)
    wanted, begin, secrets = wanted_of(types, run, workflow, tag), start_of(start), _secrets(secret_env)
    there = checked_url(url)
    if not allow_private:
        refuse_private(there.host)
    target = place_of(there)
    settings = read_settings(store=store, log="json" if json else None)

    def opening(feed: StoreFeed) -> AbstractAsyncContextManager[Handler]:
        return open_webhook(url, secrets, feed.about, allow_private=allow_private, timeout=timeout)

    served = Served(name, opening, wanted, target, begin, Retry(attempts, timeout=0))

    async def part(serving: Serving) -> None:
        given = serving.drain, serving.ready, serving.log
        await serve_name(settings, served, *given, patience=patience, health=health_file)

    return serve(settings, name, part, tied=tied, store=shown_url(settings.store), target=target)


def _secrets(variable: str) -> tuple[bytes, ...]:
    import os

    from redraft.app.webhook_signature import read_secrets
    from redraft.events.errors import InputError

    if not variable:
        return ()
    if variable not in os.environ:
        raise InputError(f"--secret-env {variable}: there is no such variable in the environment; set it")
    return read_secrets(os.environ[variable], f"the secret in {variable}")
