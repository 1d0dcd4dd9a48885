"""`redraft serve`: the HTTP API and the dashboard; without a broker it runs everything in its process."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from redraft.app.cli.shared.options import ActorsOption, BusOption, ProcessOptions, StoreOption, with_options
from redraft.app.cli.shared.reading import refuse_missing
from redraft.app.models.configuration import models_of
from redraft.app.process.logs import shown_url
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.events.errors import InputError

SERVE: Final = """\b
Examples:
  redraft serve prose article.py:article
  redraft serve --read-only --port 8421
  redraft serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
"""


_LAST_PORT: Final = 65_535


class AddressOptions(msgspec.Struct, frozen=True):
    """The address to listen on, and how connections to it are protected."""

    host: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Listen here (default 127.0.0.1).")] = None
    port: Annotated[int | None, typer.Option(metavar="N", help="Listen on this port (default 8420; 0: any).")] = None
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate, in PEM.")] = None
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of the certificate, in PEM.")] = None
    behind_proxy: Annotated[
        bool | None, typer.Option("--behind-proxy", help="A proxy before it speaks TLS with those who call.")
    ] = None

    def over(self, settings: Settings) -> Settings:
        """Returns the settings with what was given. Raises InputError."""
        if self.port is not None and not 0 <= self.port <= _LAST_PORT:
            raise InputError(f"--port {self.port}: give 0 to {_LAST_PORT}")
        given = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return read_settings(
            **(settings.model_dump(exclude_unset=True) | {"http": settings.http.model_dump(exclude_unset=True) | given})
        )


@with_options
def serve(
    workflows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORKFLOW...]",
            help="What may be submitted: a shipped one, file.py:name, plan.yaml, or file.py for all of its workflows "
            "(default: prose).",
        ),
    ] = None,
    *,
    actors: ActorsOption = "",
    elsewhere: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE.ACTOR", help="An actor whose workers ask by HTTP; may be repeated."),
    ] = None,
    address: AddressOptions,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only look: beside another process, or at a store that nobody uses.")
    ] = False,
    store: StoreOption = None,
    bus: BusOption = None,
    process: ProcessOptions,
    name: Annotated[str, typer.Option("--name", hidden=True, help="What it is called in the log.")] = "serve",
) -> int:
    """Answer over HTTP: look at runs, begin and steer them, follow events. See /api/v1/openapi.json there.

    On `local:` this process is the runtime: it runs the workflows named here, and goes on with what it was given before
    it ended. With a broker it is a client of the deployment. SIGTERM lets it end what is under way.
    Exit codes: 0 stopped by a signal, 2 wrong input, 5 a server could not be reached at the start.
    """
    from redraft.app.cli.serving.serve import Serving
    from redraft.app.cli.serving.serve import serve as run_process

    try:
        from redraft.app.dashboard.routes import build_pages
        from redraft.app.server.listening import open_socket, require_tls_files
        from redraft.app.server.offers import read_offers
        from redraft.app.server.serving import answer_http
    except ModuleNotFoundError as error:
        raise InputError(f"`redraft serve` needs {error.name}: pip install 'redraft[server]'") from None

    settings = address.over(read_settings(store=store, bus=bus, log_format=process.log_format))
    if read_only:
        refuse_missing(settings.store)
    require_tls_files(settings.http)
    models = models_of(settings)
    environment = ActorEnvironment(sys.stdout, Path.cwd(), models=models, webhook_hosts=settings.webhook_hosts)
    with redirect_stdout(sys.stderr), open_socket(settings.http) as bound:
        offers = read_offers(workflows or (), actors, environment, elsewhere or ())

        async def part(serving: Serving) -> None:
            await answer_http(
                settings,
                offers,
                bound,
                serving.drain,
                serving.ready,
                serving.log,
                build_pages,
                read_only=read_only,
                patience=process.patience,
                health=process.health_file,
            )

        return run_process(settings, name, part, tied=process.tied, store=shown_url(settings.store))
