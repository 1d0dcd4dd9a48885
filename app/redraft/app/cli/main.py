"""The command `redraft`: finds the verb that is called, imports that one alone, and returns what it ends with."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from redraft.app.cli.shared.exit_codes import INTERRUPTED, USAGE, exit_code_of
from redraft.app.cli.shared.streams import open_streams
from redraft.app.cli.verb_list import GROUPS, VERBS
from redraft.app.process.library_logs import quiet

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter

_SETTINGS: Final[dict[str, Any]] = {"pretty_exceptions_enable": False, "rich_markup_mode": None}


class Verbs(TyperGroup):
    """The verbs of `verb_list`; each is imported when it is called, so that `redraft --help` need not wait for all."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Prints the version at once: typer imports pydantic to read options. Refuses arguments that are not UTF-8."""
        for argument in args:
            if not argument.isascii() and argument != argument.encode(errors="replace").decode():
                ctx.fail(f"argument {argument!r} is not UTF-8: write it, or name the file, in UTF-8")
        if args[:1] == ["--version"]:
            from importlib.metadata import version

            typer.echo(f"redraft {version('redraft')}")
            raise typer.Exit
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Context) -> list[str]:
        """Returns the names of the verbs."""
        return list(VERBS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Returns a verb, imported; None if there is none of this name."""
        return _load(cmd_name) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Returns the verb that is called. Raises UsageError that names one like it, where there is one."""
        if args[0] not in VERBS and not ctx.resilient_parsing and (near := get_close_matches(args[0], VERBS)):
            ctx.fail(f"No such command {args[0]!r} (did you mean {' or '.join(near)}?)")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Writes the list of the verbs, in their groups."""
        width = max(map(len, VERBS))
        for heading, verbs in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), verb.summary) for name, verb in verbs.items()])


@cache
def _load(name: str) -> Command:
    verb = VERBS[name]
    module = import_module(f"redraft.app.cli.{verb.module}")
    found = getattr(module, verb.function)
    alone = typer.Typer(**_SETTINGS)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name, epilog=getattr(module, verb.examples))(found)
    return typer.main.get_group(alone).commands[name]


APP: Final = typer.Typer(
    name="redraft",
    cls=Verbs,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Iterative refinement: generate, critique, refine, repeat until good, publish; proven by the event log.",
    epilog="Example: redraft run essay.md --out better.md",
    **_SETTINGS,
)


@APP.callback(invoke_without_command=True)
def redraft(
    context: typer.Context,
    _version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the command line (or `arguments`) says; returns the exit code."""
    open_streams()
    with quiet():
        code = exit_code_of(lambda: _commands()(args=arguments, prog_name="redraft", standalone_mode=False))
    if code == INTERRUPTED and arguments is None:
        from redraft.app.cli.shared.signals import end_soon

        end_soon(code)  # a thread in which code of a user's hangs would be waited for
    return code


@cache
def _commands() -> Command:
    """The verbs as they are called; made once, for those who call `main` again and again."""
    return typer.main.get_command(APP)
