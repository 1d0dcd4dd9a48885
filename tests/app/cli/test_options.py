"""Structs of options: their fields are what a verb is given on the command line."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest
import typer

from redraft.app.cli.shared.options import with_options


class Inner(msgspec.Struct, frozen=True):
    until: Annotated[str, typer.Option(help="When it ends.")] = "never"


class Given(msgspec.Struct, frozen=True):
    name: Annotated[str, typer.Argument(help="Whose it is.")]
    words: Annotated[list[str], typer.Option("--word", help="Several.")] = []
    inner: Inner = Inner()


seen: list[object] = []


@with_options
def verb(given: Given, *, loud: Annotated[bool, typer.Option("--loud", help="Aloud.")] = False) -> int:
    """Does it."""
    seen.append((given, loud))
    return 3


def call(*arguments: str) -> object:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(verb)
    return typer.main.get_command(app)(args=arguments, standalone_mode=False)


@pytest.mark.parametrize(
    ("arguments", "given", "loud"),
    [
        (("ann",), Given("ann"), False),
        (("ann", "--word", "a", "--word", "b", "--loud"), Given("ann", ["a", "b"]), True),
        (("ann", "--until", "noon"), Given("ann", [], Inner("noon")), False),
    ],
)
def test_a_verb_gets_structs_of_what_was_typed(arguments: tuple[str, ...], given: Given, loud: bool):
    assert call(*arguments) == 3
    assert seen.pop() == (given, loud)


def test_a_field_without_a_default_has_to_be_given():
    with pytest.raises(typer.TyperException, match="name"):
        call()


def test_help_names_the_fields_and_says_what_the_verb_does(capsys: pytest.CaptureFixture[str]):
    call("--help")
    shown = capsys.readouterr().out
    assert all(each in shown for each in ("Does it.", "Whose it is.", "--word", "--until", "When it ends.", "--loud"))
