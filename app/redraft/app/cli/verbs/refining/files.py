"""`redraft files`: refines files where they lie, for hooks and actions, and fails where one is not good enough."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from redraft.actors.values import ignore
from redraft.app.cli.running.file_runs import (
    JudgedFile,
    Wanted,
    changed_since,
    group_by_workflow,
    refine_files,
    without_links,
)
from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.exit_codes import FAILED, UNACCEPTED
from redraft.app.cli.shared.options import (
    ActorsOption,
    JsonOption,
    PlanChanges,
    QuietOption,
    RunOptions,
    StoreOption,
    with_options,
)
from redraft.app.cli.shared.output import print_json, print_line
from redraft.app.process.files import refuse_special, write_whole
from redraft.app.process.lifecycle import run
from redraft.app.settings.settings import LOCAL, read_settings
from redraft.events.errors import InputError
from redraft.events.messages.scales import score_text
from redraft.projections.display import counted, outcome_text, plain

EXAMPLES: Final = """\b
Examples:
  redraft files README.md docs/*.md --min-score 0.9
  redraft files --since origin/main --write
"""

SHOWN: Final = 5
"""How many remarks on a file are printed."""


@with_options
def files(
    paths: Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help="The files to refine.")] = None,
    *,
    since: Annotated[
        str, typer.Option(metavar="COMMIT", help="The files that were changed since then, as git says; no FILE.")
    ] = "",
    workflow: Annotated[
        str, typer.Option("--workflow", "-w", help="For all files (default: code for a .py file, else prose).")
    ] = "",
    actors: ActorsOption = "",
    min_score: Annotated[
        float, typer.Option(min=0, max=1, help="What lies in a file must score at least this, from 0 to 1.")
    ] = 0.8,
    write: Annotated[
        bool, typer.Option("--write", help="Write the refined text into the file where it is better.")
    ] = False,
    github: Annotated[bool, typer.Option("--github", help="Annotate files as GitHub Actions read it.")] = False,
    report: Annotated[str, typer.Option(metavar="FILE", help="Write what --json prints to this file as well.")] = "",
    changes: PlanChanges,
    store: StoreOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Refine files where they lie, and fail if what lies there in the end is not good enough.

    Without --write a file is judged as it is, and what would change is in the run: `redraft diff RUN 1 2`. With it the
    refined text is judged and written; symbolic links are passed over. A file that was changed meanwhile, or cannot be
    written, is left as it is and has a line; all others are written. Exit codes: 0 all are good enough, 1 a run failed
    or a file could not be written, 2 wrong input, 3 a file is below --min-score.
    """
    settings = read_settings(store=store).model_copy(update={"bus": LOCAL})
    if bool(paths) == bool(since):
        raise InputError(
            "name files, or those that git knows as changed with --since COMMIT" + (", not both" * bool(paths))
        )
    if report:
        refuse_special(Path(report), "--report")
    named = changed_since(since) if since else paths or []
    if write:
        named = without_links(named, lambda line: say(f"passed over: {line}"))
    note: Callable[[str], None] = ignore if quiet else (lambda line: say(f"passed over: {line}"))
    groups = group_by_workflow(named, workflow, settings.max_draft_bytes, note, named=bool(paths))
    given = RunOptions(actors=actors, changes=changes)
    ended: list[JudgedFile] = []
    with redirect_stdout(sys.stderr):  # what the user's own functions print must not mix with the result
        run(refine_files(settings, given, groups, Wanted(min_score, write), ended.append))
    document = {"files": ended, "min_score": min_score}
    if report:
        write_whole(Path(report), msgspec.json.encode(document) + b"\n", "--report")
    if json:
        print_json(document)
    else:
        _print(ended, min_score, quiet=quiet)
    if github:
        _annotate(ended, min_score)
    return _exit_code(ended)


def _exit_code(ended: Sequence[JudgedFile]) -> int:
    if any(each.outcome == "failed" or each.fault for each in ended):
        return FAILED
    return UNACCEPTED if any(each.is_below for each in ended) else 0


def _print(ended: Sequence[JudgedFile], min_score: float, *, quiet: bool) -> None:
    for each in ended:
        if each.is_below or each.fault or not quiet:
            print_line(f"{plain(each.file, SHOWN * 40)}: {_sentence(each, min_score)}")
        if each.is_below:
            for remark in each.remarks[:SHOWN]:
                print_line(f"  {plain(remark)}")
    if not quiet:
        below, written = sum(each.is_below for each in ended), sum(each.written for each in ended)
        left = sum(bool(each.fault) for each in ended)
        say(
            f"{counted(len(ended), 'file')}, {below} below {min_score:g}, {written} written"
            + (f", {left} left as it is" if left == 1 else f", {left} left as they are" if left else "")
        )


def _sentence(each: JudgedFile, min_score: float) -> str:
    there = each.after if each.written else each.before
    if each.fault:
        return f"left as it is: {plain(each.fault, SHOWN * 40)}; refined it has {_refined(each)} (run {each.run})"
    facts = [f"score {score_text(there, each.scale, beside=True)}" if there is not None else outcome_text(each.outcome)]
    if each.is_below:
        facts.append(f"below {min_score:g}" if there is not None and there < min_score else each.reason)
    if each.written:
        was = "none" if each.before is None else score_text(each.before, each.scale, beside=True)
        facts.append(f"written; it was {was}")
    elif each.changed:
        facts.append(f"refined it has {_refined(each)}")
    return f"{', '.join(facts)} (run {each.run})"


def _refined(each: JudgedFile) -> str:
    return "no score" if each.after is None else score_text(each.after, each.scale, beside=True)


def _annotate(ended: Sequence[JudgedFile], min_score: float) -> None:
    """Prints a command of GitHub Actions for each file that is not good enough, or was changed."""
    for each in ended:
        if each.is_below or each.changed:
            level = "error" if each.is_below or each.fault else "notice"
            message = "\n".join((_sentence(each, min_score), *each.remarks[:SHOWN]))
            print_line(f"::{level} file={_property(each.file)},title=Redraft::{_data(message)}")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
