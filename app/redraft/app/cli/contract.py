"""`redraft contract`: what travels over RabbitMQ, for programs in any language."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from redraft.app.cli.output import print_json, print_text

EXAMPLE: Final = """\b
Examples:
  redraft contract > redraft.yaml
  redraft contract --json > redraft.json
"""


def contract(
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print it as YAML, which is the default.")] = False,
) -> None:
    """Print the contract of commands, outcomes and events, for programs in any language.

    It is an AsyncAPI 3.0 document with JSON Schemas, made from the very structs that are sent and stored.
    """
    from importlib.metadata import version

    from redraft.app.contract import contract as document
    from redraft.events.errors import InputError

    if json and yaml:
        raise InputError("--json and --yaml: the contract is printed in one of them; leave one out")
    told = document(version("redraft"))
    if json:
        print_json(told)
        return
    from msgspec.json import decode, encode
    from yaml import safe_dump

    separate = decode(encode(told))  # what stands in it twice would be printed as an anchor and an alias
    print_text(safe_dump(separate, sort_keys=False, allow_unicode=True, width=120))
