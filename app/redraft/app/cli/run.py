"""`redraft run`: one run in this process, from brief to result."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from redraft.app.cli.options import (
    BudgetOption,
    JsonOption,
    ModelOption,
    PassesOption,
    QuietOption,
    StoreOption,
    TagOption,
    TextOption,
    TrustOption,
    UntilOption,
    named,
)

EXAMPLE: Final = """\b
Examples:
  redraft run essay.md --out better.md
  redraft run --workflow code module.py --tests tests/test_module.py
  redraft run article.py:article "Why tides exist"
  redraft run essay.md --tag spring --tag draft-3
  redraft run --resume last
  redraft run --batch briefs.jsonl article.py:article --concurrency 64
"""


def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORKFLOW] SOURCE",
            help="What to refine: a file, - for standard input, or the text itself. "
            "WORKFLOW may stand before it instead of after -w.",
            show_default=False,
        ),
    ] = None,
    workflow: Annotated[
        str,
        typer.Option(
            "--workflow",
            "-w",
            help="prose, code, article, file.py:name, or plan.yaml (default: code for a .py file, else prose).",
            show_default=False,
        ),
    ] = "",
    actors: Annotated[str, typer.Option(metavar="FILE.py", help="A Python file with the plan's own functions.")] = "",
    text: TextOption = False,
    out: Annotated[str, typer.Option(metavar="PATH", help="Publish to this file instead of standard output.")] = "",
    until: UntilOption = "",
    max_iterations: PassesOption = None,
    tests: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Tests that judge the code too; may be repeated.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The same key is the same run: it goes on, or gives its result again.")
    ] = None,
    tag: TagOption = None,
    resume: Annotated[str, typer.Option(metavar="RUN", help="Go on with a run that was interrupted; no SOURCE.")] = "",
    trust: TrustOption = False,
    model: ModelOption = "",
    watch: Annotated[bool, typer.Option("--watch", help="Show what models write, as it comes.")] = False,
    batch: Annotated[
        str, typer.Option(metavar="FILE.jsonl", help="Many briefs, one on each line: a text in quotes, or an object.")
    ] = "",
    concurrency: Annotated[int, typer.Option(help="How many runs of a batch go on at once.")] = 16,
    budget: BudgetOption = "",
    store: StoreOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Refine a text: generate, critique, refine until good, publish. Everything is recorded and can be resumed.

    Progress goes to standard error, the result to standard output. Exit codes: 0 accepted, 1 failed, 2 wrong input,
    3 ended without acceptance, 5 the store cannot be reached, 130 interrupted.
    """
    from redraft.app.cli.conduct import conduct
    from redraft.app.cli.order import Given

    given = Given(
        words=tuple(words or ()),
        workflow=workflow,
        actors=actors,
        as_text=text,
        out=out,
        until=until,
        max_iterations=max_iterations,
        budget=budget,
        tests=tuple(tests or ()),
        key=named(key),
        model=model,
        watch=watch,
        tags=tuple(tag or ()),
        resume=resume,
        trust=trust,
        batch=batch,
        concurrency=concurrency,
    )
    if batch:
        from redraft.app.cli.batch import conduct_batch

        return conduct_batch(given, store, json=json, quiet=quiet)
    return conduct(given, store, json=json, quiet=quiet)
