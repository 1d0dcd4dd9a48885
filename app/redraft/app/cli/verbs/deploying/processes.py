"""`redraft coordinator` and `worker`: one process each of a deployment; and `redraft up`: all of them on a machine."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from redraft.app.cli.shared.options import (
    BusOption,
    JsonLogOption,
    PatienceOption,
    ProcessOptions,
    StoreOption,
    with_options,
)
from redraft.app.cli.shared.signals import interrupts
from redraft.app.models.configuration import check_worker, models_of
from redraft.app.process.lifecycle import PATIENCE
from redraft.app.process.logs import shown_url
from redraft.app.process.user_output import user_output
from redraft.app.settings.settings import LOCAL, Settings, read_settings
from redraft.app.wiring.deployment import require_broker, require_store, work, work_by_http
from redraft.app.workflows.actor_registry import actors_for
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.events.errors import InputError
from redraft.events.messages.plan import Role

if TYPE_CHECKING:
    from redraft.app.cli.serving.supervisor import Child

NameOption: TypeAlias = Annotated[str, typer.Option("--name", hidden=True, help="What it is called in the log.")]

COORDINATOR: Final = "Example: redraft coordinator --health-file /run/redraft/coordinator"


@with_options
def coordinator(
    *,
    store: StoreOption = None,
    bus: BusOption = None,
    process: ProcessOptions,
    name: NameOption = "coordinator",
) -> int:
    """Decide for every run, record it, and send the workers their requests.

    Any number may run on one store: one of them passes on what was recorded, and another takes over by itself.
    Exit codes: 0 stopped by a signal, 2 wrong input, 5 the store or broker could not be reached at the start.
    """
    from redraft.app.cli.serving.serve import Serving, serve
    from redraft.app.wiring.coordinating import coordinate

    settings = read_settings(store=store, bus=bus, log_format=process.log_format)
    require_broker(settings)
    require_store(settings)

    async def part(serving: Serving) -> None:
        given = serving.ready, serving.log
        await coordinate(settings, *given, drain=serving.drain, patience=process.patience, health=process.health_file)

    return serve(settings, name, part, tied=process.tied, store=shown_url(settings.store), bus=shown_url(settings.bus))


WORKER: Final = """\b
Examples:
  redraft worker article.py:judge article.py:improve
  redraft worker --role critic article.py
  REDRAFT_WORKER_MODULE=article.py redraft worker --role critic
  redraft worker prose prose-fix --concurrency 4
  REDRAFT_SERVER_TOKEN=rdt_… redraft worker article.py:judge --url https://redraft.example.com
"""


@with_options
def worker(
    actors: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ACTOR...",
            help="file.py:name, file.py for all of it, or a shipped actor (default: REDRAFT_WORKER_MODULE).",
        ),
    ] = None,
    *,
    role: Annotated[Role | None, typer.Option(help="Serve only actors of this role.")] = None,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", help="How many requests each actor works on at once (default 64).")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Work by HTTP for this `redraft serve`, without a broker (REDRAFT_SERVER_URL); the token is "
            "REDRAFT_SERVER_TOKEN.",
        ),
    ] = None,
    bus: BusOption = None,
    process: ProcessOptions,
    name: NameOption = "worker",
) -> int:
    """Serve actors: take requests from their queues, work, report. It needs the bus and no database.

    With --url it needs no bus either: the server leases the requests to it. Any number of workers may serve the same
    actor. SIGTERM lets it end what is under way; a second one stops it.
    Exit codes: 0 stopped by a signal, 2 wrong input, 5 the broker could not be reached at the start.
    """
    from redraft.app.cli.serving.serve import Serving, serve

    settings = read_settings(bus=bus, server_url=url, worker_concurrency=concurrency, log_format=process.log_format)
    if not settings.server_url:
        require_broker(settings)
    named = actors or [settings.worker_module]
    if not all(named):
        raise InputError(
            "name what to serve: `redraft worker article.py:judge`, or set REDRAFT_WORKER_MODULE=article.py"
        )
    models = models_of(settings)
    check_worker(named, models)
    environment = ActorEnvironment(sys.stdout, Path.cwd(), models=models, webhook_hosts=settings.webhook_hosts)
    with user_output():
        chosen = actors_for(named, role, environment)

        async def part(serving: Serving) -> None:
            given = serving.drain, serving.ready, serving.log
            if settings.server_url:
                await work_by_http(settings, chosen, *given, patience=process.patience, health=process.health_file)
                return
            await work(
                settings, chosen, *given, patience=process.patience, health=process.health_file, turns=models.turns
            )

        served = [f"{actor.role} {actor.name}" for actor in chosen]
        return serve(settings, name, part, tied=process.tied, actors=served, concurrency=settings.worker_concurrency)


UP: Final = """\b
Examples:
  redraft up article.py
  redraft up plan.yaml --actors actors.py --scale judge=3
  redraft up article.py:article --serve
"""


def up(
    workflows: Annotated[
        list[str],
        typer.Argument(
            metavar="WORKFLOW...", help="A shipped one, file.py:name, plan.yaml, or file.py for all of its own actors."
        ),
    ],
    actors: Annotated[str, typer.Option(metavar="FILE.py", help="A Python file with the plans' own functions.")] = "",
    scale: Annotated[
        list[str] | None,
        typer.Option(metavar="ACTOR=N", help="How many workers serve this actor, instead of one; may be repeated."),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Answer over HTTP too, as `redraft serve` does for these workflows.")
    ] = False,
    store: StoreOption = None,
    bus: BusOption = None,
    patience: PatienceOption = PATIENCE,
    json: JsonLogOption = False,
) -> int:
    """Run a coordinator and a worker for each actor, on this machine. A process that dies or hangs is started again.

    One log goes to standard error, each line with the name of its process. SIGTERM or Ctrl-C lets all end what they do;
    a second one stops them. Exit codes: 0 stopped by a signal, 2 wrong input, 5 a server could not be reached at the
    start.
    """
    from redraft.app.cli.serving.supervisor import processes_for
    from redraft.app.process.lifecycle import run

    settings = read_settings(store=store, bus=bus, log_format="json" if json else None)
    if settings.bus == LOCAL:
        raise InputError(
            "`up` needs a broker that its processes share: REDRAFT_BUS=amqp://user:password@host:5672/; "
            "in one process it is `redraft run`, or `redraft serve`"
        )
    require_broker(settings)
    require_store(settings)
    return run(_supervise(settings, processes_for(workflows, actors, scale or (), patience, serve=serve)))


async def _supervise(settings: Settings, children: list[Child]) -> int:
    from redraft.app.cli.serving.supervisor import Supervisor
    from redraft.app.process.logs import is_text, new_log

    text = is_text(sys.stderr, settings.log_format)
    environment = {  # in the environment and not on the command line, where everybody could read a password
        **os.environ,
        "REDRAFT_STORE": settings.store,
        "REDRAFT_BUS": settings.bus,
        "REDRAFT_LOG_FORMAT": "text" if text else "json",
    }
    with tempfile.TemporaryDirectory(prefix="redraft-up-") as folder, interrupts() as signals:
        width = max(len(child.name) for child in children)
        log = new_log(sys.stderr, settings.log_format, "up", f"{'up':<{width}} | ")
        log.info("starting", processes=[child.name for child in children])
        supervisor = Supervisor(children, environment, sys.stderr, log, Path(folder), as_json=not text)
        code = await supervisor.run(signals)
        log.info("ended", code=code)
        return code
