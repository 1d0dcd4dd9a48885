"""`redraft show` and `diff`: a run as it stands or stood, and what changed between its drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec
import typer

from redraft.app.cli.shared.options import JsonOption, RunArgument, StoreOption
from redraft.app.cli.shared.output import out, print_json, print_line, print_text
from redraft.app.cli.shared.reading import ask, events_at, events_of, run_quietly
from redraft.app.cli.views.changes import change_lines, score_lines
from redraft.app.record.changes import StateChanges, compare_drafts, compare_states
from redraft.app.record.items import tree_with_items
from redraft.app.record.past import DIGITS, final_draft
from redraft.app.settings.settings import LOCAL, read_settings
from redraft.app.subscribing.misfits import folded
from redraft.app.wiring.deployment import unserved
from redraft.app.wiring.local import LocalRuntime
from redraft.events.errors import InputError
from redraft.events.messages.envelope import Recorded
from redraft.projections.read_models.runs_query import find_run
from redraft.projections.run_views.state import state_at
from redraft.projections.run_views.tree_model import Tree

if TYPE_CHECKING:
    from redraft.app.record.copying.with_texts import CommandSent

SHOW: Final = """\b
Examples:
  redraft show last
  redraft show last --at 12
  redraft show last --at 2026-01-03T10:00Z
  redraft show last --step 'Refinement[2]/improve' --attempt 1
  redraft show last --text > final.md
  redraft show last --state --at 7
  redraft show last --follow
"""
DIFF: Final = """\b
Examples:
  redraft diff last 1 3
  redraft diff last --state 7 12
  redraft diff last 6vf1k --state
"""

AtOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--at",
        metavar="N|TIME",
        help="Show the run after its first N events, or at this time: 2026-01-03T10:00Z, or 2h ago.",
    ),
]


def show(
    run: RunArgument,
    at: AtOption = "",
    step: Annotated[
        str, typer.Option(metavar="PATH", help="Print the exact request that the worker of this step was given.")
    ] = "",
    attempt: Annotated[
        int | None, typer.Option(help="With --step: the request of this attempt (default: the last).")
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Print only the text of the final draft, or of the newest one.")
    ] = False,
    state: Annotated[
        bool, typer.Option("--state", help="Show the values of its state, and who changed each of them last.")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Then print a line for each step, until the run ends."),
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show a run as a tree, with scores and times, and why it ended; with --at as it was at that time.

    With --step it shows what a worker saw when it decided: the command with brief, draft, critique and history, made
    from the log as it was made then. With --state it shows what actors had told each other in values by then.
    """
    if attempt is not None and not step:
        raise InputError("--attempt needs a step; name it with --step PATH")
    if state and (step or text):
        raise InputError(f"--state shows the values of the run's state; leave {'--step' if step else '--text'} out")
    if follow:
        for option, given in {"--at": at, "--step": step, "--text": text, "--state": state, "--json": json}.items():
            if given:
                raise InputError(f"--follow shows what happens from now on; leave {option} out")
        ask(store, lambda log: _follow(log, run))
        return
    if step:
        _print_request(ask(store, lambda log: _find_request(log, run, at, step, attempt)), json=json)
        return
    events, is_readable, found = ask(store, lambda log: _read_whole(log, run, at))
    if state:
        from redraft.app.cli.views.state import print_state

        print_state(state_at(events), json=json)
    elif text:
        print_text(final_draft(events).text)
    elif json:
        print_json(found)
    else:
        _print_tree(found, whole=is_readable and not at)
        if is_readable and not at:
            _tell_unserved(events)


def _print_tree(found: Tree, *, whole: bool) -> None:
    from redraft.app.cli.views.tree import tree_view

    out().print(tree_view(found, whole=whole, shared=read_settings().bus != LOCAL))


async def _follow(log: LocalRuntime, text: str) -> None:
    """Prints a run as it is, then a line for each step as it happens, and the whole run once it has ended."""
    from redraft.app.cli.running.progress import RunProgress
    from redraft.app.subscribing.subscriber import is_end

    events, is_readable, found = await _read_whole(log, text, "")
    _print_tree(found, whole=is_readable)
    progress = RunProgress()
    for event in events:
        progress.note(event)
    if not is_readable or any(is_end(event) for event in events):
        return
    async for event in log.client.subscribe(events[-1].position, run=events[0].run):
        if line := progress.note(event):
            print_line(line)
        if is_end(event):
            break
    _print_tree((await _read_whole(log, events[0].run, ""))[2], whole=True)


def _tell_unserved(events: Sequence[Recorded]) -> None:
    """Says which actors a run waits for that no worker serves, where there is a broker to ask."""
    steps = folded(events).open.values()
    waiting = [step.request for step in steps if step.retry_at is None and step.request.role != "run"]
    if waiting:
        for line in run_quietly(unserved(read_settings(), [(asked.role, asked.actor) for asked in waiting])):
            out().print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


async def _read_whole(log: LocalRuntime, run: str, at: str) -> tuple[Sequence[Recorded], bool, Tree]:
    """Returns the events of a run that can be read, whether all of them can be, and its tree with its items'."""
    events = await events_at(log, run, at)
    line = await find_run(log.views, events[0].run)
    is_readable = line.status != "unreadable" and events[-1].version >= line.version
    return events, is_readable, await tree_with_items(log.store, events, cut=bool(at))


async def _find_request(log: LocalRuntime, run: str, at: str, step: str, attempt: int | None) -> CommandSent:
    from redraft.app.record.copying.with_texts import find_command

    return await find_command(await events_at(log, run, at), step, attempt, log.client.history)


def _print_request(found: CommandSent, *, json: bool) -> None:
    """The command, as JSON in one line with where it is from, or indented under a line that says so."""
    if json:
        print_json(found)
        return
    asked = found.command.request
    where = f"event {found.version} of run {found.run}, {found.time:%Y-%m-%d %H:%M:%S} UTC"
    print_line(f"{found.name} for {asked.actor}, attempt {asked.attempt} ({where})")
    print_text(msgspec.json.format(msgspec.json.encode(found.command), indent=2).decode() + "\n")


def diff(
    run: RunArgument,
    a: Annotated[str, typer.Argument(metavar="A", help="The number of the draft before; or see --state.")],
    b: Annotated[str, typer.Argument(metavar="[B]", help="The number of the draft after.")] = "",
    state: Annotated[
        bool,
        typer.Option(
            "--state", help="Compare the state after event A with that after event B, or with that of the run A."
        ),
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show what changed between two drafts, word by word, what critics said of both in numbers, and what was answered.

    Below each change stand the issues that it answers.
    Removed words are shown as [-removed-], added words as {+added+}; a terminal shows them in colour too.

    With --state it shows which values of the run's state differ: between two of its events (or times), or from those of
    another run, such as a fork.
    """
    if state:
        from redraft.app.cli.views.state import print_state_changes

        print_state_changes(ask(store, lambda log: _compare_states(log, run, a, b)), json=json)
        return
    before, after = _draft_number("A", a), _draft_number("B", b)
    changes = compare_drafts(ask(store, lambda log: events_of(log, run)), before, after)
    if json:
        print_json(changes)
        return
    for line in score_lines(changes.scores):
        out().print(line, markup=False, highlight=False, soft_wrap=True)
    if changes.is_same:
        out().print(f"drafts {a} and {b} are the same text")
    else:
        if changes.only_line_ends:
            print_line(f"drafts {a} and {b} differ in their line ends alone; ␍ stands for a carriage return")
        for shown in (shown for line in changes.lines for shown in change_lines(line)):
            out().print(shown, soft_wrap=True)


def _draft_number(name: str, text: str) -> int:
    if not (text.isdecimal() and len(text) < DIGITS):
        remedy = "name two drafts by their numbers, such as redraft diff last 1 3, or give --state"
        raise InputError(f"invalid value for '{name}': {text!r} is not the number of a draft; {remedy}")
    return int(text)


async def _compare_states(log: LocalRuntime, run: str, a: str, b: str) -> StateChanges:
    """Compares the states of a run at two of its events or times, or of two runs as they are."""
    if b:
        return compare_states(state_at(await events_at(log, run, a)), state_at(await events_at(log, run, b)))
    return compare_states(state_at(await events_of(log, run)), state_at(await events_of(log, a)))
