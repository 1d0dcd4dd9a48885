"""The run of an item is forked like any other, with the functions of its own file; the fork is the run of no item."""

from __future__ import annotations

from pathlib import Path

from tests.app.cli_calls import document, said
from tests.app.itemized import all_runs, run_book, write_book


def test_the_run_of_an_item_is_forked_with_the_functions_of_its_file(home: Path) -> None:
    write_book(home)
    run_book()
    inside = next(run for run in all_runs() if run.count("~") == 2)
    assert said("fork", inside, "--at", "1", "--quiet") == said("show", inside, "--text")
    newest = document("list")[0]
    assert (newest["parent"]["run"], newest["item_of"]) == (inside, None)
