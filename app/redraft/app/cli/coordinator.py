"""`redraft coordinator`: one process that decides, records, and passes on what was recorded."""

from __future__ import annotations

from typing import Final

from redraft.app.cli.options import (
    PATIENCE,
    BusOption,
    HealthOption,
    JsonLogOption,
    NameOption,
    PatienceOption,
    StoreOption,
    TiedOption,
)

EXAMPLE: Final = "Example: redraft coordinator --health-file /run/redraft/coordinator"


def coordinator(
    store: StoreOption = None,
    bus: BusOption = None,
    health_file: HealthOption = None,
    patience: PatienceOption = PATIENCE,
    json: JsonLogOption = False,
    tied: TiedOption = False,
    name: NameOption = "coordinator",
) -> int:
    """Decide for every run, record it, and send the workers their requests.

    Any number may run on one store: one of them passes on what was recorded, and another takes over by itself.
    Exit codes: 0 told to end, 2 wrong input, 5 the store or broker could not be reached at the start.
    """
    from redraft.app.cli.process import Serving, serve
    from redraft.app.coordinating import coordinate
    from redraft.app.deployment import require_broker, require_store
    from redraft.app.settings import read_settings, shown_url

    settings = read_settings(store=store, bus=bus, log="json" if json else None)
    require_broker(settings)
    require_store(settings)

    async def part(serving: Serving) -> None:
        given = serving.ready, serving.log
        await coordinate(settings, *given, drain=serving.drain, patience=patience, health=health_file)

    return serve(settings, name, part, tied=tied, store=shown_url(settings.store), bus=shown_url(settings.bus))
