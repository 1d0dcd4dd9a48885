"""`redraft run`, `submit` and `fork`: a run from its brief, in this process or in a deployment, or from another run."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from redraft.actors.plans.paths import steps_in
from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.options import (
    BusOption,
    ForkOptions,
    JsonOption,
    PlanChanges,
    QuietOption,
    RunOptions,
    StateOption,
    StoreOption,
    TagOption,
    TextOption,
    WorkflowArgument,
    refuse_blank,
    with_options,
)
from redraft.app.settings.settings import LOCAL, read_settings
from redraft.app.wiring.deployment import require_broker, require_store, unserved

RUN: Final = """\b
Examples:
  redraft run essay.md --out better.md
  redraft run --workflow code module.py --tests tests/test_module.py
  redraft run --workflow code src/ --tests tests/ --out mended/
  redraft run article.py:article "Why tides exist"
  redraft run essay.md --tag spring --tag draft-3
  redraft run article.py:article "Why tides exist" --set state.audience=children
  redraft run --resume last
  redraft run --batch briefs.jsonl article.py:article --concurrency 64
"""
SUBMIT: Final = """\b
Examples:
  redraft submit article.py:article "Why tides exist"
  redraft submit plan.yaml notes.md --key notes-7 --tag spring --wait --json
  redraft submit code module.py --tests tests/test_module.py --model openai:gpt-5
"""
FORK: Final = """\b
Examples:
  redraft fork last --at 12 --set 'until=score >= 0.95' --set max_iterations=8
  redraft fork last --at 6 --set judge.model=openai:gpt-5 --out other.md
  redraft fork last --at 6 --set state.audience=children
  redraft fork last --at 1 --brief "Why tides exist, for children" --workflow article.py:article
"""


@with_options
def run(given: RunOptions, store: StoreOption = None, json: JsonOption = False, quiet: QuietOption = False) -> int:
    """Refine a text or folder: generate, critique, refine until good, publish. All is recorded and can be resumed.

    Progress goes to standard error, the result to standard output. Exit codes: 0 accepted, 1 failed, 2 wrong input,
    3 ended without acceptance, 5 the store cannot be reached, 130 interrupted.
    """
    if given.batch:
        from redraft.app.cli.running.batch_run import run_batch_locally

        return run_batch_locally(given, store, json=json, quiet=quiet)
    from redraft.app.cli.running.run_locally import run_locally

    return run_locally(given, store, json=json, quiet=quiet)


@with_options
def submit(
    workflow: WorkflowArgument,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A file, a folder, - (standard input), or the text.")],
    *,
    key: Annotated[
        str | None,
        typer.Option(callback=refuse_blank, help="The same key is the same run, however often it is submitted."),
    ] = None,
    tag: TagOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the run ends, and print its result as `run` does.")
    ] = False,
    text: TextOption = False,
    tests: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Tests that judge the code too, on this machine; may be repeated."),
    ] = None,
    changes: PlanChanges,
    settings: StateOption = [],  # noqa: B006 - never changed
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Send a run to a deployment and print its id. Its actors are not needed here, and without --wait no store.

    With --wait the final draft is printed instead. Exit codes: 0 submitted or accepted, 1 failed, 2 wrong input,
    3 ended without acceptance, 5 the broker or store cannot be reached, 130 interrupted (the run goes on).
    """
    from redraft.app.cli.running.run_locally import submit_request
    from redraft.app.cli.running.run_request import remote_request
    from redraft.app.process.lifecycle import run

    given = RunOptions(
        [workflow, source], text=text, changes=changes, settings=settings, tests=tests or [], key=key, tag=tag
    )
    chosen = read_settings(store=store, bus=bus)
    require_broker(chosen)
    if wait:
        require_store(chosen)
    request = remote_request(given, chosen)
    if not quiet:
        asked = [(step.role, step.actor) for _, step in steps_in(request.plan.steps)]
        for line in run(unserved(chosen, asked, request.actor_files)):
            say(line)
    return submit_request(chosen, request, {}, wait=wait, json=json, quiet=quiet)


@with_options
def fork(
    given: ForkOptions,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="In a deployment: wait until the run ends, and print its result as `run` does."),
    ] = False,
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Start a new run that begins with another's history up to an event, and names it as its parent.

    Nothing that was done by then is done again; what was open is asked for again, and workers do the rest: in this
    process, as for `run`, or, where a broker is set, in the deployment, as for `submit`. Exit codes are those of `run`
    or `submit`.
    """
    from redraft.app.cli.running.run_locally import run_request_locally, submit_request
    from redraft.app.cli.running.run_request import fork_request, remote_fork

    settings = read_settings(store=store, bus=bus)
    if settings.bus == LOCAL:
        return run_request_locally(
            lambda environment, read: fork_request(given, environment, read), store, json=json, quiet=quiet
        )
    request = remote_fork(given, settings)
    return submit_request(settings, request, {"parent": request.parent}, wait=wait, json=json, quiet=quiet)
