"""`redraft plan`: a workflow as YAML, as Python, or as a Mermaid diagram."""

from __future__ import annotations

from typing import Annotated, Final, Literal, assert_never

import typer

from redraft.app.cli.options import JsonOption
from redraft.app.cli.output import print_json, print_text

EXAMPLE: Final = """\b
Examples:
  redraft plan prose --as yaml > mine.yaml
  redraft plan article.py:article --as mermaid
"""


def plan(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="A shipped one, file.py:name, or plan.yaml.")],
    form: Annotated[Literal["yaml", "python", "mermaid"], typer.Option("--as", help="How to write it.")] = "yaml",
    json: JsonOption = False,
) -> None:
    """Print a workflow as YAML, as Python, or as a diagram.

    The plan is checked first. YAML and Python can be run again; the diagram is Mermaid text.
    """
    from redraft.app.sources import read_source

    found = read_source(workflow).plan
    if json:
        print_json(found)
        return
    match form:
        case "yaml":
            from redraft.actors.plan_yaml import print_plan

            print_text(print_plan(found))
        case "python":
            from redraft.actors.plan_python import print_python

            print_text(print_python(found))
        case "mermaid":
            from redraft.actors.mermaid import print_mermaid

            print_text(print_mermaid(found))
        case _:
            assert_never(form)
