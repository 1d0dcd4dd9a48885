"""`redraft up`: a whole deployment on this machine, each part a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.options import PATIENCE, BusOption, JsonLogOption, PatienceOption, StoreOption

if TYPE_CHECKING:
    from redraft.app.cli.supervisor import Child
    from redraft.app.settings import Settings

EXAMPLE: Final = """\b
Examples:
  redraft up article.py
  redraft up plan.yaml --actors actors.py --scale judge=3
"""


def up(
    workflows: Annotated[
        list[str],
        typer.Argument(
            metavar="WORKFLOW...",
            help="A shipped one, file.py:name, plan.yaml, or file.py for all of its actors.",
        ),
    ],
    actors: Annotated[str, typer.Option(metavar="FILE.py", help="A Python file with the plans' own functions.")] = "",
    scale: Annotated[
        list[str] | None,
        typer.Option(metavar="ACTOR=N", help="So many workers for this actor instead of one; may be repeated."),
    ] = None,
    store: StoreOption = None,
    bus: BusOption = None,
    patience: PatienceOption = PATIENCE,
    json: JsonLogOption = False,
) -> int:
    """Run a coordinator and a worker for each actor, on this machine. A process that dies or hangs is started again.

    One log goes to standard error, each line with the name of its process. SIGTERM or Ctrl-C lets all end what they do;
    a second one stops them. Exit codes: 0 told to end, 2 wrong input, 5 a server could not be reached at the start.
    """
    from redraft.app.cli.crew import crew_of
    from redraft.app.deployment import require_broker, require_store
    from redraft.app.loop import run
    from redraft.app.settings import read_settings
    from redraft.events.errors import InputError

    settings = read_settings(store=store, bus=bus, log="json" if json else None)
    if settings.bus == "local:":
        raise InputError(
            "`up` needs a broker that its processes share: REDRAFT_BUS=amqp://user:password@host:5672/; "
            "in one process it is `redraft run`"
        )
    require_broker(settings)
    require_store(settings)
    return run(_supervised(settings, crew_of(workflows, actors, scale or (), patience)))


async def _supervised(settings: Settings, children: list[Child]) -> int:
    import os
    import sys
    import tempfile
    from pathlib import Path

    from redraft.app.cli.interrupts import interrupts
    from redraft.app.cli.supervisor import Supervisor
    from redraft.app.logs import is_text, new_log

    text = is_text(sys.stderr, settings.log)
    environment = {  # in the environment and not on the command line, where everybody could read a password
        **os.environ,
        "REDRAFT_STORE": settings.store,
        "REDRAFT_BUS": settings.bus,
        "REDRAFT_LOG": "text" if text else "json",
    }
    with tempfile.TemporaryDirectory(prefix="redraft-up-") as folder, interrupts() as signals:
        width = max(len(child.name) for child in children)
        log = new_log(sys.stderr, settings.log, "up", f"{'up':<{width}} | ")
        log.info("starting", processes=[child.name for child in children])
        supervisor = Supervisor(children, environment, sys.stderr, log, Path(folder), as_json=not text)
        code = await supervisor.run(signals)
        log.info("ended", code=code)
        return code
