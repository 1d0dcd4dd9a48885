"""`redraft audit`: tells the story of a run, verifies the record, and exports it. Its tasks are in `cli.auditing`."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from redraft.app.cli.shared.options import JsonOption, SignedFiles, StoreOption, with_options
from redraft.events.errors import InputError

EXAMPLE: Final = """\b
Examples:
  redraft audit last --verify
  redraft audit last --export last.html
  redraft audit --all --verify
  redraft audit --all --checkpoint today.json --key audit.pem
  redraft audit --all --against today.json --public-key audit.pem.pub
"""


@with_options
def audit(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="A run's id, or the start or end of it, or `last`.")] = "",
    *,
    everything: Annotated[bool, typer.Option("--all", help="The whole log, in place of RUN; with --verify.")] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Check the hash of every event, that none is gone, and that all fit the plan."),
    ] = False,
    export: Annotated[str, typer.Option(metavar="FILE", help="Write the record to a .jsonl or .html file.")] = "",
    files: SignedFiles,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Print the whole story of a run, verify it, export it.

    The story says, in the order it happened, who asked, who answered, what was said and changed, and why it went on
    or ended; `because of 5` names the event that led to another.

    Each event holds the SHA-256 of itself and of the event before it: --verify finds what was changed, put in or taken
    out, names the event, and ends with exit code 1. It also checks the record against the plan: each answer is to a
    request, counts once, and what was decided and published follows from it. Findings about a run that was set aside
    are reported and are no fault. With --all it also looks at what holds the log, such as the pages and triggers of a
    SQLite file. A .jsonl export can be checked without Redraft.

    The log itself does not show that the last events of a run, or a whole run, were taken out or written anew, nor that
    events of two runs changed places. --against shows it, with a checkpoint that was signed before and is kept
    elsewhere.
    """
    from redraft.app.cli.auditing.verification import audit_run, export_target  # it takes a while to import
    from redraft.app.cli.auditing.whole_log import audit_log

    path = export_target(export)
    if everything == bool(run):
        raise InputError("name one run, or --all for every run; `redraft list` shows the runs")
    if everything and (path or not (verify or files.checkpoint or files.against)):
        raise InputError("--all goes with --verify, --checkpoint or --against; name one run to read or export it")
    if everything:
        return audit_log(store, files, verify=verify, json=json)
    if files != SignedFiles():
        raise InputError("--checkpoint and --against are for the whole log; give --all in place of a run")
    return audit_run(store, run, path, verify=verify, json=json)
