"""`redraft plan`, `contract` and `trust`: a workflow as YAML or a diagram, the contract, a trusted folder."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, Literal, assert_never

import typer
from msgspec.json import decode, encode
from yaml import safe_dump

from redraft.actors.formats.mermaid import print_mermaid
from redraft.actors.formats.yaml_reader import print_plan
from redraft.app.cli.shared.exit_codes import FAILED
from redraft.app.cli.shared.options import JsonOption, WorkflowArgument
from redraft.app.cli.shared.output import print_json, print_result, print_text
from redraft.app.cli.shared.reading import run_quietly
from redraft.app.process.logs import shown_url
from redraft.app.settings.settings import Settings, read_file, read_settings, untrusted_in
from redraft.app.settings.settings import trust as record
from redraft.app.workflows.sources import read_source
from redraft.events.errors import InputError

CONTRACT_EXAMPLE: Final = """\b
Examples:
  redraft contract > redraft.yaml
  redraft contract --json > redraft.json
  REDRAFT_BROKER_PREFIX=check redraft contract --check critic.judge
"""


def contract(
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print it as YAML, which is the default.")] = False,
    check: Annotated[
        str, typer.Option(metavar="ACTOR", help="Try the worker of an actor, such as critic.judge, against it.")
    ] = "",
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="With --check: how long one answer may take.")
    ] = 30.0,
) -> int:
    """Print the contract of commands, outcomes and events, for programs in any language; or try a worker against it.

    It is an AsyncAPI 3.0 document with JSON Schemas, made from the very structs that are sent and stored. Its names and
    kinds of queues are those of the settings (REDRAFT_BROKER_PREFIX, REDRAFT_QUEUE_TYPE).

    --check sends requests to a running worker on the broker of the settings, and says what is wrong with its answers; a
    publisher publishes. No coordinator may run with the same prefix. It ends with 1 when something is wrong.
    """
    from redraft.app.contract.asyncapi import contract as document

    if json and yaml:
        raise InputError("--json and --yaml: the contract is printed in one of them; leave one out")
    settings = read_settings()
    if check:
        return _check_worker(settings, check, timeout, json=json)
    contract_document = document(
        version("redraft"), settings.broker_prefix, settings.queue_type, settings.max_draft_bytes
    )
    if json:
        print_json(contract_document)
        return 0

    separate = decode(encode(contract_document))  # what stands in it twice would be printed as an anchor and an alias
    print_text(safe_dump(separate, sort_keys=False, allow_unicode=True, width=120))
    return 0


def _check_worker(settings: Settings, actor: str, timeout: float, *, json: bool) -> int:
    from redraft.app.contract.trial import Tried, read_actor, try_worker

    def lines(each: Tried) -> list[str]:
        came = f": {each.answer} after {each.seconds:.2f} s" if each.answer else ""
        return [f"{'wrong' if each.faults else 'ok':<5}  {each.request}{came}", *(f"       {x}" for x in each.faults)]

    tried = run_quietly(try_worker(settings, *read_actor(actor), timeout))
    print_result({"actor": actor, "tried": tried}, (line for each in tried for line in lines(each)), json=json)
    return FAILED if any(each.faults for each in tried) else 0


TRUST_EXAMPLE: Final = """\b
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
    found = read_file(file)
    if found is None:
        raise InputError(f"{file}: there is no such file; name a folder's redraft.toml")
    settings, content = found
    names = untrusted_in(settings, file.resolve().parent)
    record(file, content)
    what = "; ".join(f"{name} = {_shown(name, settings[name])}" for name in names)
    line = f"{file.resolve()} is trusted as it is: {what or 'it sets nothing that asks for it'}"
    print_result({"trusted": str(file.resolve()), "settings": names}, [line], json=json)


PLAN_EXAMPLE: Final = """\b
Examples:
  redraft plan prose --as yaml > mine.yaml
  redraft plan article.py:article --as mermaid
"""


def plan(
    workflow: WorkflowArgument,
    form: Annotated[Literal["yaml", "mermaid"], typer.Option("--as", help="How to write it.")] = "yaml",
    json: JsonOption = False,
) -> None:
    """Print a workflow as YAML, or as a diagram.

    The plan is checked first. YAML can be run again; the diagram is Mermaid text.
    """
    found = read_source(workflow).plan
    if json:
        print_json(found)
        return
    match form:
        case "yaml":
            print_text(print_plan(found))
        case "mermaid":
            print_text(print_mermaid(found))
        case _:
            assert_never(form)


def _shown(name: str, value: object) -> str:
    """Returns the value of a setting to be looked at; stars for a secret one."""
    return "***" if any(word in name for word in ("key", "secret", "token")) else shown_url(str(value))
