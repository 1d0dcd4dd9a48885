"""`redraft worker`: one process that serves actors."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from redraft.app.cli.options import (
    PATIENCE,
    BusOption,
    HealthOption,
    JsonLogOption,
    NameOption,
    PatienceOption,
    TiedOption,
)
from redraft.events.plan import Role

EXAMPLE: Final = """\b
Examples:
  redraft worker article.py:judge article.py:improve
  redraft worker --role critic article.py
  REDRAFT_MODULE=article.py redraft worker --role critic
  redraft worker prose prose-fix --concurrency 4
"""


def worker(
    actors: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ACTOR...",
            help="file.py:name, file.py for all of it, or a shipped actor (default: the setting REDRAFT_MODULE).",
        ),
    ] = None,
    role: Annotated[Role | None, typer.Option(help="Serve only actors of this role.", show_default=False)] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="How many requests each actor works on at once (default 64).", show_default=False
        ),
    ] = None,
    bus: BusOption = None,
    health_file: HealthOption = None,
    patience: PatienceOption = PATIENCE,
    json: JsonLogOption = False,
    tied: TiedOption = False,
    name: NameOption = "worker",
) -> int:
    """Serve actors: take requests from their queues, work, report. It needs the bus and no database.

    Any number of workers may serve the same actor. SIGTERM lets it end what is under way; a second one stops it.
    Exit codes: 0 told to end, 2 wrong input, 5 the broker could not be reached at the start.
    """
    import sys
    from contextlib import redirect_stdout
    from pathlib import Path

    from redraft.app.cli.process import Serving, serve
    from redraft.app.deployment import require_broker, work
    from redraft.app.models import check_worker, models_of
    from redraft.app.outlets import Outlets
    from redraft.app.settings import read_settings
    from redraft.app.targets import actors_for
    from redraft.events.errors import InputError

    settings = read_settings(bus=bus, concurrency=concurrency, log="json" if json else None)
    require_broker(settings)
    named = actors or [settings.module]
    if not all(named):
        raise InputError("name what to serve: `redraft worker article.py:judge`, or set REDRAFT_MODULE=article.py")
    models = models_of(settings)
    check_worker(named, models)
    outlets = Outlets(sys.stdout, Path.cwd(), models=models, webhook_hosts=settings.webhook_hosts)
    with redirect_stdout(sys.stderr):  # what the user's own functions print must not mix with what is published
        chosen = actors_for(named, role, outlets)

        async def part(serving: Serving) -> None:
            given = serving.drain, serving.ready, serving.log
            await work(settings, chosen, *given, patience=patience, health=health_file, turns=models.turns)

        served = [f"{actor.role} {actor.name}" for actor in chosen]
        return serve(settings, name, part, tied=tied, actors=served, concurrency=settings.concurrency)
