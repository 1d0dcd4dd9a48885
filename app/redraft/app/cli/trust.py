"""`redraft trust`: what a folder's settings may do is for the person who works there to say, once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from redraft.app.cli.options import JsonOption
from redraft.app.cli.output import print_json, print_line

EXAMPLE: Final = """\b
Examples:
  redraft trust
  redraft trust elsewhere/redraft.toml
"""


def trust(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="A folder's settings.")] = Path("redraft.toml"),
    json: JsonOption = False,
) -> None:
    """Trust a folder's redraft.toml as it is now: its store, bus, module and keys then count.

    Look at it first. When it changes, it has to be trusted again. What is trusted is kept in your data folder.
    """
    from redraft.app.settings import read_file, shown_url
    from redraft.app.trust import trust as record
    from redraft.app.trust import untrusted_in
    from redraft.events.errors import InputError

    found = read_file(file)
    if found is None:
        raise InputError(f"{file}: there is no such file; name a folder's redraft.toml")
    settings, content = found
    names = untrusted_in(settings, file.resolve().parent)
    record(file, content)
    if json:
        print_json({"trusted": str(file.resolve()), "settings": names})
        return
    told = "; ".join(f"{name} = {shown_url(str(settings[name])) if 'key' not in name else '***'}" for name in names)
    print_line(f"{file.resolve()} is trusted as it is: {told or 'it sets nothing that asks for it'}")
