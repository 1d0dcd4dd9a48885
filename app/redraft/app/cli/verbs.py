"""The command `redraft`: its verbs, and what they end with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Final

import typer

from redraft.app.cli import (
    approve,
    archive,
    audit,
    contract,
    coordinator,
    diff,
    doctor,
    erase,
    fork,
    key,
    log,
    parked,
    plan,
    projections,
    rebuild,
    run,
    runs,
    show,
    simulate,
    stats,
    steer,
    submit,
    subscribe,
    subscriptions,
    trust,
    up,
    webhook,
    whatif,
    worker,
)
from redraft.app.cli.faults import USAGE, exit_code_of
from redraft.app.libraries import quiet

APP: Final = typer.Typer(
    name="redraft",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Iterative refinement: generate, critique, refine, repeat until good, publish; proven by the event log.",
    epilog="Example: redraft run essay.md --out better.md",
)
APP.command("run", epilog=run.EXAMPLE)(run.run)
APP.command("list", epilog=runs.EXAMPLE)(runs.list_)
APP.command("show", epilog=show.EXAMPLE)(show.show)
APP.command("diff", epilog=diff.EXAMPLE)(diff.diff)
APP.command("events", epilog=log.EXAMPLE)(log.events)
APP.command("audit", epilog=audit.EXAMPLE)(audit.audit)
APP.command("export", epilog=archive.EXPORT)(archive.export)
APP.command("import", epilog=archive.IMPORT)(archive.import_)
APP.command("erase", epilog=erase.EXAMPLE)(erase.erase)
APP.add_typer(key.APP, name="key")
APP.command("rebuild", epilog=rebuild.EXAMPLE)(rebuild.rebuild)
APP.add_typer(stats.APP, name="stats")
APP.add_typer(projections.APP, name="projections")
APP.command("doctor", epilog=doctor.EXAMPLE)(doctor.doctor)
APP.command("whatif", epilog=whatif.EXAMPLE)(whatif.whatif)
APP.command("simulate", epilog=simulate.EXAMPLE)(simulate.simulate)
APP.command("fork", epilog=fork.EXAMPLE)(fork.fork)
APP.command("plan", epilog=plan.EXAMPLE)(plan.plan)
APP.command("submit", epilog=submit.EXAMPLE)(submit.submit)
APP.command("guide", epilog=steer.GUIDE)(steer.guide)
APP.command("limits", epilog=steer.LIMITS)(steer.limits)
APP.command("pause", epilog=steer.PAUSE)(steer.pause)
APP.command("resume", epilog=steer.RESUME)(steer.resume)
APP.command("cancel", epilog=steer.CANCEL)(steer.cancel)
APP.command("quarantine", epilog=steer.QUARANTINE)(steer.quarantine)
APP.command("approve", epilog=approve.APPROVE)(approve.approve)
APP.command("reject", epilog=approve.REJECT)(approve.reject)
APP.command("edit", epilog=approve.EDIT)(approve.edit)
APP.command("up", epilog=up.EXAMPLE)(up.up)
APP.command("coordinator", epilog=coordinator.EXAMPLE)(coordinator.coordinator)
APP.command("worker", epilog=worker.EXAMPLE)(worker.worker)
APP.add_typer(parked.APP, name="parked")
APP.command("subscribe", epilog=subscribe.EXAMPLE)(subscribe.subscribe)
APP.command("webhook", epilog=webhook.EXAMPLE)(webhook.webhook)
APP.add_typer(subscriptions.APP, name="subscriptions")
APP.command("trust", epilog=trust.EXAMPLE)(trust.trust)
APP.command("contract", epilog=contract.EXAMPLE)(contract.contract)


@APP.callback(invoke_without_command=True)
def redraft(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"redraft {version_of('redraft')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the command line (or `arguments`) says; returns the exit code."""
    with quiet():
        return exit_code_of(lambda: _commands()(args=arguments, prog_name="redraft", standalone_mode=False))


@cache
def _commands() -> Callable[..., object]:
    """The verbs as they are called; made once, for those who call `main` again and again: it takes most of a call."""
    return typer.main.get_command(APP)
