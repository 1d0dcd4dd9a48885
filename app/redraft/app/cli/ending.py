"""How a run ended, as the command line says it, and the exit code for it."""

from __future__ import annotations

import sys

from redraft.app.cli.faults import FAILED, UNACCEPTED, say
from redraft.app.cli.output import print_json, print_text
from redraft.app.result import Result
from redraft.projections.plain import counted, outcome_text, score_text, usage_text


def tell_end(result: Result, *, text: bool, json: bool, quiet: bool) -> int:
    """Prints the result as JSON, or its `text` if that is wanted, and one line about it; gives the exit code."""
    if json:
        print_json(result)
    elif result.draft and text:
        print_text(result.text)
    if not quiet or result.outcome != "accepted":
        if sys.stdout.isatty() and not json and result.draft and not result.text.endswith("\n"):
            print(file=sys.stderr)  # noqa: T201 - the text ended in the middle of the terminal's line
        say(_sentence(result))
    match result.outcome:
        case "accepted":
            return 0
        case "failed":
            return FAILED
        case _:
            return UNACCEPTED


def _sentence(result: Result) -> str:
    score = f"score {score_text(result.score)}" if result.score is not None else "no score"
    used = "" if result.usage.is_nothing else f"{usage_text(result.usage)}, "
    passes = counted(result.iterations, "iteration")
    return f"{outcome_text(result.outcome)}, {score}, {passes}, {used}run {result.run}: {result.reason}"
