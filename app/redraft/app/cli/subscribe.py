"""`redraft subscribe`: one process that calls a function with every event."""

from __future__ import annotations

from typing import Annotated, Final

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

EXAMPLE: Final = "Example: redraft subscribe scores.py:note --name scores --type draft.critiqued"


def subscribe(
    handler: Annotated[str, typer.Argument(metavar="HANDLER", help="file.py:function, which takes an event.")],
    name: SubscriptionOption,
    types: TypesOption = None,
    run: RunsOption = None,
    workflow: WorkflowsOption = None,
    tag: TagsOption = None,
    start: FromOption = "beginning",
    attempts: AttemptsOption = 5,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long one call may take.")] = 60.0,
    store: StoreOption = None,
    health_file: HealthOption = None,
    patience: PatienceOption = PATIENCE,
    json: JsonLogOption = False,
    tied: TiedOption = False,
) -> int:
    """Call a function of a Python file with each event, in order, once it is recorded; go on where it was.

    The file is run, so name only files that you trust. One process serves a name, others stand by. When the function
    raises it is called again after 1 s, 2 s, 4 s and so on; after the last attempt the event is parked.
    """
    import sys
    from contextlib import redirect_stdout

    from redraft.app.cli.process import Serving, serve
    from redraft.app.delivery import Retry
    from redraft.app.serving import Served, just, serve_name
    from redraft.app.settings import read_settings, shown_url
    from redraft.app.user_file import function_in
    from redraft.events.subscription_book import checked_name

    checked_name(name)
    wanted, begin = wanted_of(types, run, workflow, tag), start_of(start)
    settings = read_settings(store=store, log="json" if json else None)
    with redirect_stdout(sys.stderr):  # what the file prints when it is loaded
        function = function_in(handler)
    served = Served(name, just(function), wanted, handler, begin, Retry(attempts, timeout=timeout).checked())

    async def part(serving: Serving) -> None:
        given = serving.drain, serving.ready, serving.log
        await serve_name(settings, served, *given, patience=patience, health=health_file)

    return serve(settings, name, part, tied=tied, store=shown_url(settings.store), handler=handler)
