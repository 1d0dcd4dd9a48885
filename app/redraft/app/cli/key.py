"""`redraft key`: keys to encrypt texts with, and to sign checkpoints with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from redraft.app.cli.options import JsonOption
from redraft.app.cli.output import print_json, print_line

FileArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="A new file, readable by you alone.")]

APP: Final = typer.Typer(
    help="Make keys: to encrypt the texts of runs, or to sign checkpoints of the log.",
    no_args_is_help=False,
    rich_markup_mode=None,
    epilog="Example: redraft key signing audit.pem",
)


@APP.command("encryption", epilog="Example: redraft key encryption redraft.key")
def encryption(file: FileArgument, json: JsonOption = False) -> None:
    """Make a key that texts are encrypted with.

    Give it to every process that reads or writes the store: REDRAFT_ENCRYPT_KEY_FILE=FILE, and REDRAFT_ENCRYPT=1 where
    new runs are to be encrypted. Who loses it loses the texts; keep a copy apart from the store.
    """
    from redraft.app.key_files import write_private
    from redraft.events.sealing import new_master_key

    write_private(file, new_master_key() + "\n")
    if json:
        print_json({"private": str(file)})
    else:
        print_line(f"{file}: an encryption key; set REDRAFT_ENCRYPT=1 REDRAFT_ENCRYPT_KEY_FILE={file}")


@APP.command("signing", epilog="Example: redraft key signing audit.pem")
def signing(file: FileArgument, json: JsonOption = False) -> None:
    """Make a pair of Ed25519 keys that checkpoints are signed with (PEM): FILE, and FILE.pub for those who verify."""
    from redraft.app.key_files import refuse_present, write_private, write_public
    from redraft.app.signing import new_pair

    public = file.with_name(f"{file.name}.pub")
    refuse_present(file, public)
    pair = new_pair()
    write_private(file, pair.private)
    write_public(public, pair.public)
    if json:
        print_json({"private": str(file), "public": str(public)})
    else:
        print_line(f"{file}: signs checkpoints, keep it secret; {public}: verifies them, hand it on")
