"""`redraft mcp`: lets any assistant that speaks the Model Context Protocol have texts refined and proven."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Final

import typer

from redraft.app.cli.shared.options import BusOption, ByOption, StoreOption, name_of
from redraft.app.settings.settings import read_settings
from redraft.app.wiring.deployment import require_store
from redraft.events.errors import InputError

EXAMPLES: Final = """\b
Examples:
  redraft mcp
  redraft mcp --workflow article.py:article --by ann
  redraft mcp --http --port 8765
"""

OFFERED: Final = ("prose", "code")
"""The workflows that are offered where none is named: they ask no model."""


def mcp(
    workflow: Annotated[
        list[str] | None,
        typer.Option(
            "--workflow",
            "-w",
            metavar="WORKFLOW",
            help="What may be submitted: a shipped one, file.py:name, or plan.yaml; may be repeated, and the first is "
            "the default (default: prose and code).",
        ),
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Serve by HTTP instead of standard input and output.")] = False,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="With --http: where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --http: the port; 0 for any that is free.")] = 8765,
    proxy: Annotated[
        str,
        typer.Option(metavar="NAME", help="With --http: a proxy in front authenticates, and is reached by this name."),
    ] = "",
    by: ByOption = "",
    store: StoreOption = None,
    bus: BusOption = None,
) -> int:
    """Serve assistants by the Model Context Protocol: tools to submit, watch, show, diff, guide, approve and what-if.

    Drafts and audits are resources. Without a broker this process works on what is submitted, and what is under way
    when it ends goes on with `redraft run --resume`; with one, a deployment does. What assistants say to a run is
    recorded in your name. By HTTP it listens on 127.0.0.1, and refuses requests that name another Host or Origin.
    """
    if find_spec("mcp") is None:
        raise InputError("`redraft mcp` needs the MCP SDK, which is not installed: pip install 'redraft[mcp]'")
    from redraft.app.cli.assistants.transport import HttpAddress, check_address, serve_assistants
    from redraft.app.process.lifecycle import run

    settings = read_settings(store=store, bus=bus)
    require_store(settings)
    address = check_address(HttpAddress(host, port, proxy)) if http else None
    run(serve_assistants(settings, workflow or list(OFFERED), name_of(by), address))
    return 0
