"""`redraft subscribe` and `redraft webhook`: one process that hands every event to a function, or to a URL."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec
import typer

from redraft.app.cli.shared.options import LARGEST, ProcessOptions, StoreOption, with_options
from redraft.app.process.logs import shown_url
from redraft.app.process.user_output import user_output
from redraft.app.settings.settings import read_settings
from redraft.app.subscribing.delivery import RETRY, Handler, check_retry
from redraft.app.subscribing.feed import StoreFeed
from redraft.app.workflows.user_file import function_in
from redraft.events.errors import InputError
from redraft.events.messages.filters import EventFilter, event_filter
from redraft.events.subscriptions.subscriptions import check_name

if TYPE_CHECKING:
    from redraft.app.wiring.subscription_process import Served, Start

SUBSCRIBE: Final = "Example: redraft subscribe scores.py:note --name scores --type draft.critiqued"
WEBHOOK: Final = """\b
Example:
  export HOOK_SECRET=whsec_$(openssl rand -base64 32)
  redraft webhook https://example.com/hook --name ours --type run.ended --secret-env HOOK_SECRET
"""

_RUN_ID: Final = 26
"""Characters of an id, of a run with a key too."""


class SubscriptionOptions(msgspec.Struct, frozen=True):
    """A subscription's name, and which events it is for."""

    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The subscription's name; its position is kept under it.")
    ]
    types: Annotated[
        list[str], typer.Option("--type", metavar="TYPE", help="Only events of this type; may be repeated.")
    ] = []
    run: Annotated[
        list[str], typer.Option("--run", metavar="RUN", help="Only events of this run, by its whole id.")
    ] = []
    workflow: Annotated[
        list[str], typer.Option("--workflow", metavar="NAME", help="Only of runs of this workflow.")
    ] = []
    tag: Annotated[list[str], typer.Option("--tag", metavar="TAG", help="Only of runs with this tag.")] = []

    def filter(self) -> EventFilter:
        """Returns the filter that the options mean. Raises InputError.

        A run may be one that is not recorded yet, so its id cannot be looked up, and `last` would mean another one
        later.
        """
        for run in self.run:
            if len(run) < _RUN_ID:
                remedy = f"give the whole id of a run, {_RUN_ID} characters; `redraft list` shows it"
                raise InputError(f"--run {run}: {remedy}")
        return event_filter(types=self.types, runs=self.run, workflows=self.workflow, tags=self.tag)


FromOption: TypeAlias = Annotated[
    str, typer.Option("--from", metavar="PLACE", help="Where a new name begins: `beginning`, `now`, or a position.")
]
AttemptsOption: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=1, help="How often an event is tried before it is parked.")
]


@with_options
def subscribe(
    handler: Annotated[str, typer.Argument(metavar="HANDLER", help="file.py:function, which takes an event.")],
    *,
    which: SubscriptionOptions,
    start: FromOption = "beginning",
    attempts: AttemptsOption = 5,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long one call may take.")] = 60.0,
    store: StoreOption = None,
    process: ProcessOptions,
) -> int:
    """Call a function of a Python file with each event, in order, once it is recorded; go on where it was.

    The file is run, so name only files that you trust. One process serves a name, others stand by. When the function
    raises it is called again after 1 s, 2 s, 4 s and so on; after the last attempt the event is parked.
    """
    from redraft.app.wiring.subscription_process import Served

    check_name(which.name)
    wanted, begin = which.filter(), _start_of(start)
    with user_output():
        function = function_in(handler)
    retry = msgspec.structs.replace(RETRY, attempts=attempts)
    check_retry(retry, timeout)
    served = Served(which.name, lambda feed: nullcontext(function), wanted, handler, begin, retry, timeout)
    return _serve(store, process, served, handler=handler)


@with_options
def webhook(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where events are sent: https://host/path.")],
    *,
    which: SubscriptionOptions,
    secret_env: Annotated[
        str, typer.Option(metavar="VAR", help="The environment variable with the secret that signs: whsec_ and base64.")
    ] = "",
    start: FromOption = "now",
    attempts: AttemptsOption = 10,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How long one request may take.")] = 30.0,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Also to addresses that are not public: this machine, your network.")
    ] = False,
    store: StoreOption = None,
    process: ProcessOptions,
) -> int:
    """Send each event to a URL by POST, in order, signed; go on where it was.

    An answer of 2xx means that it was taken. Otherwise it is sent again after 1 s, 2 s, 4 s, up to 5 min, or when
    `Retry-After` says so; after the last attempt it is parked. Redirects are not followed.
    """
    from redraft.app.webhooks.sender import check_url, open_webhook, place_of, refuse_private
    from redraft.app.wiring.subscription_process import Served

    check_name(which.name)
    wanted, begin, secrets = which.filter(), _start_of(start), _secrets(secret_env)
    there = check_url(url)
    if not allow_private:
        refuse_private(there.host)

    def opening(feed: StoreFeed) -> AbstractAsyncContextManager[Handler]:
        return open_webhook(url, secrets, feed.about, allow_private=allow_private, timeout=timeout)

    retry = msgspec.structs.replace(RETRY, attempts=attempts)
    served = Served(which.name, opening, wanted, place_of(there), begin, retry, timeout=0)
    return _serve(store, process, served, target=served.target)


def _serve(store: str | None, process: ProcessOptions, served: Served, **facts: str) -> int:
    from redraft.app.cli.serving.serve import Serving, serve
    from redraft.app.wiring.subscription_process import serve_name

    settings = read_settings(store=store, log_format=process.log_format)

    async def part(serving: Serving) -> None:
        given = serving.drain, serving.ready, serving.log
        await serve_name(settings, served, *given, patience=process.patience, health=process.health_file)

    return serve(settings, served.name, part, tied=process.tied, store=shown_url(settings.store), **facts)


def _start_of(text: str) -> Start:
    """Returns the position after which a new name begins. Raises InputError."""
    if text == "now":
        return "now"
    if text == "beginning":
        return 0
    if text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST)) and 1 <= int(text) <= LARGEST:
        return int(text) - 1
    raise InputError(f"--from {text}: give `beginning`, `now`, or a position, 1 to {LARGEST}")


def _secrets(variable: str) -> tuple[bytes, ...]:
    from redraft.app.webhooks.sender import read_secrets

    if not variable:
        return ()
    if variable not in os.environ:
        raise InputError(f"--secret-env {variable}: there is no such variable in the environment; set it")
    return read_secrets(os.environ[variable], f"the secret in {variable}")
