"""`redraft erase` and `redraft key`: texts made unreadable for ever, and the keys that encrypt and sign."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.options import ByOption, JsonOption, ReasonOption, RunArgument, StoreOption, name_of
from redraft.app.cli.shared.output import print_result
from redraft.app.cli.shared.reading import existing_store
from redraft.app.process.files import refuse_present, write_key
from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import open_local
from redraft.projections.display import counted

if TYPE_CHECKING:
    from redraft.app.record.erasure import Erased

EXAMPLE: Final = "Example: redraft erase last --reason 'Ada asked for it'"


def erase(
    run: RunArgument,
    by: ByOption = "",
    reason: ReasonOption = "",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Make the texts of a run that has ended unreadable: its brief, drafts, critiques, reasons.

    This destroys the run's key, so it works on a run that was recorded with REDRAFT_ENCRYPT_NEW_RUNS=1. The recorded
    events stay as they are and can still be verified; an event after them records who erased the run, and when. It
    cannot be undone. The runs of its items are erased before it; such a run by itself only once the run around it,
    which holds its draft, is erased.
    """
    done = asyncio.run(_erase_run(existing_store(store), run, name_of(by), reason))
    time = f"{done.time:%Y-%m-%d %H:%M:%S} UTC"
    line = f"run {done.run}: its texts can no longer be read; erased by {done.by} at {time}"
    items = [f"and those of {counted(len(done.items), 'run')} of its items"] if done.items else []
    print_result(done, [line, *items], json=json)
    for leftover in () if json else done.leftover:
        say(leftover)


async def _erase_run(settings: Settings, run: str, by: str, reason: str) -> Erased:
    from redraft.app.record.erasure import erase_run

    async with open_local(settings, ()) as runtime:
        return await erase_run(runtime, settings, run, by=by, reason=reason)


FileArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="A new file, readable by you alone.")]

APP: Final = typer.Typer(
    help="Make keys: to encrypt the texts of runs, or to sign checkpoints of the log.",
    epilog="Example: redraft key signing audit.pem",
)


@APP.command("encryption", epilog="Example: redraft key encryption redraft.key")
def encryption(file: FileArgument, json: JsonOption = False) -> None:
    """Make a key that texts are encrypted with.

    Give it to every process that reads or writes the store: REDRAFT_ENCRYPT_KEY_FILE=FILE, and
    REDRAFT_ENCRYPT_NEW_RUNS=1 where new runs are to be encrypted. Without it the texts are lost; keep a copy apart from
    the store.
    """
    from redraft.events.encryption.cipher import new_master_key

    write_key(file, new_master_key() + "\n")
    line = f"{file}: an encryption key; set REDRAFT_ENCRYPT_NEW_RUNS=1 REDRAFT_ENCRYPT_KEY_FILE={file}"
    print_result({"private": str(file)}, [line], json=json)


@APP.command("signing", epilog="Example: redraft key signing audit.pem")
def signing(file: FileArgument, json: JsonOption = False) -> None:
    """Make a pair of Ed25519 keys that checkpoints are signed with (PEM): FILE, and FILE.pub for those who verify."""
    from redraft.app.record.auditing.checkpoint import generate_pair

    public = file.with_name(f"{file.name}.pub")
    refuse_present(file, public)
    pair = generate_pair()
    write_key(file, pair.private)
    write_key(public, pair.public, 0o644)
    line = f"{file}: signs checkpoints, keep it secret; {public}: verifies them, hand it on"
    print_result({"private": str(file), "public": str(public)}, [line], json=json)
