"""A run's tree as people see it on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from rich.console import Group as Lines
from rich.text import Text
from rich.tree import Tree as View

from redraft.events.messages.domain_events import Outcome
from redraft.events.messages.scales import score_text
from redraft.projections.display import counted, duration_text, outcome_text, plain, usage_text
from redraft.projections.run_views.tree_model import (
    MAY_HAVE_DELIVERED,
    NO_SCORE,
    Branch,
    Group,
    Iteration,
    Leaf,
    Loop,
    Tree,
    look_name,
)

_STYLES: Final = {"open": "cyan", "waiting": "yellow", "failed": "red", "dropped": "dim", "skipped": "dim", "done": ""}


def tree_view(tree: Tree, *, whole: bool, shared: bool = False) -> Lines:
    """The tree, with the run's name above it and how it ended below. `whole`: of all its events.

    `shared`: a coordinator and workers go on with it.
    """
    view = View(Text(tree.workflow, style="bold"), guide_style="dim")
    compared = len({leaf.scale for leaf in _leaves(tree.branches) if leaf.score is not None}) > 1
    for branch in tree.branches:
        _add(view, branch, compared=compared)
    end = _end(tree, shared=shared) if whole or tree.ended or tree.quarantined else _cut(tree)
    return Lines(_head(tree), view, *_state(tree), end)


def _leaves(branches: Iterable[Branch]) -> Iterator[Leaf]:
    for branch in branches:
        match branch:
            case Leaf():
                yield branch
                yield from _leaves(branch.inner.branches) if branch.inner is not None else ()
            case Group():
                yield from _leaves(branch.children)
            case Loop():
                yield from (leaf for each in branch.iterations for leaf in _leaves(each.children))
            case _:
                assert_never(branch)


def _head(tree: Tree) -> Text:
    started = f", {tree.started:%Y-%m-%d %H:%M:%S} UTC" if tree.started else ""
    used = f", {usage_text(tree.usage)}" if not tree.usage.is_nothing else ""
    details = f"{started}, {counted(tree.version, 'event')}, {duration_text(tree.seconds)}{used}"
    fork = f", a fork of {plain(tree.parent.run)} at event {tree.parent.version}" if tree.parent else ""
    item = f", item {plain(tree.of.path)} of run {plain(tree.of.run)}" if tree.of else ""
    return Text.assemble(f"run {tree.run}", fork, item, (details, "dim"))


def _state(tree: Tree) -> Iterator[Text]:
    if tree.state:
        yield Text.assemble(f"state: {tree.state}", (f"  (redraft show {tree.run} --state)", "dim"))


def _cut(tree: Tree) -> Text:
    return Text(f"after the first {counted(tree.version, 'event')}", style="dim")


def _end(tree: Tree, *, shared: bool) -> Text:
    if tree.quarantined:
        return Text(f"set aside {tree.quarantined}; nothing more is done for it", style="red")
    if tree.ended is None and tree.paused:
        return Text(f"paused {tree.paused}; go on with: redraft resume {tree.run}", style="yellow")
    if tree.ended is None and tree.waiting:
        return Text(f"{tree.waiting}: redraft approve {tree.run}, or reject", style="yellow")
    if tree.ended is None:
        local = f"if no process works on it, go on with: redraft run --resume {tree.run}"
        message = "a coordinator and workers go on with it; see redraft doctor whether they run" if shared else local
        return Text(f"not ended; {message}", style="yellow")
    ended = tree.ended
    facts = [counted(ended.iterations, "iteration")]
    facts += [f"score {score_text(ended.score, ended.scale)}"] if ended.score is not None else []
    facts += [f"draft {ended.draft}"] if ended.draft is not None else []
    return Text.assemble(_outcome(ended.outcome), f": {ended.reason} ", (f"({', '.join(facts)})", "dim"))


def _add(view: View, branch: Branch, *, compared: bool) -> None:
    """Adds a branch; scores that are `compared` on different scales have their shares beside them."""
    match branch:
        case Leaf():
            item = view.add(_leaf(branch, compared=compared))
            if branch.inner is not None:
                _add_inner(item, branch.inner, compared=compared)
        case Group():
            inner = view.add(Text(branch.name))
            for child in branch.children:
                _add(inner, child, compared=compared)
        case Loop():
            inner = view.add(_loop(branch))
            for each in branch.iterations:
                _add_iteration(inner, each, compared=compared)
        case _:
            assert_never(branch)


def _add_inner(view: View, tree: Tree, *, compared: bool) -> None:
    """Adds the tree of an item's run, and how it ended or that it waits for people."""
    for branch in tree.branches:
        _add(view, branch, compared=compared)
    ended = tree.ended is not None and tree.ended.outcome == "accepted"
    if not ended and (tree.ended or tree.quarantined or tree.paused or tree.waiting):
        view.add(_end(tree, shared=True))


def _add_iteration(view: View, each: Iteration, *, compared: bool) -> None:
    label = look_name(each.label) or f"iteration {each.label}"
    lasted = f"  {duration_text(each.seconds)}" if each.seconds is not None else ""
    inner = view.add(Text.assemble(label, (lasted, "dim")))
    for child in each.children:
        _add(inner, child, compared=compared)


def _leaf(leaf: Leaf, *, compared: bool) -> Text:
    by = f"{leaf.chosen}, by {leaf.actor}" if leaf.chosen not in ("", leaf.actor) else leaf.actor
    name = leaf.name if leaf.name == by or leaf.role == "run" else f"{leaf.name} ({by})"
    name += f"  run {leaf.run}" if leaf.run else ""
    facts = [f"score {score_text(leaf.score, leaf.scale, beside=compared)}"] if leaf.score is not None else []
    facts += [leaf.marks] if leaf.marks else []
    facts += [leaf.changed] if leaf.changed else []
    facts += [f"draft {leaf.draft}"] if leaf.draft is not None else []
    facts += [leaf.verdict] if leaf.verdict else []
    facts += [counted(leaf.issues, "issue")] if leaf.issues else []
    facts += [counted(leaf.edits, "edit")] if leaf.edits else []
    facts += [f"about {counted(leaf.saved_tokens, 'token')} saved"] if leaf.saved_tokens else []
    facts += [duration_text(leaf.seconds)] if leaf.seconds is not None else []
    elsewhere = f" of run {leaf.reused_from}" if leaf.reused_from else ""
    facts += [f"reused from event {leaf.reused}{elsewhere}"] if leaf.reused else []
    facts += ["too late to count"] if leaf.late else []
    facts += ["done before the fork"] if leaf.inherited else []
    facts += [counted(leaf.attempts, "attempt")] if leaf.attempts > 1 else []
    facts += [usage_text(leaf.usage)] if not leaf.usage.is_nothing else []
    facts += [leaf.overruled] if leaf.overruled else []
    line = Text.assemble((name, "bold"), f"  {', '.join(facts)}" if facts else "")
    if leaf.status != "done":
        line.append(f"  {leaf.status}", style=_STYLES[leaf.status])
    told = [leaf.error] if leaf.error else []
    told += [MAY_HAVE_DELIVERED] if leaf.may_have_delivered else []
    if told:
        line.append(f": {'; '.join(told)}", style=_STYLES[leaf.status])
    return line


def _loop(loop: Loop) -> Text:
    line = Text.assemble((loop.name, "bold"))
    if loop.outcome:
        line.append("  ").append_text(_outcome(loop.outcome)).append(f": {loop.reason}")
    elif loop.closing:
        line.append(f"  {loop.closing}")
    if loop.unjudged:
        line.append(f"; {NO_SCORE}" if loop.outcome or loop.closing else f"  {NO_SCORE}", style="dim")
    return line


def _outcome(outcome: Outcome) -> Text:
    style = "green" if outcome == "accepted" else "red" if outcome == "failed" else "yellow"
    return Text(outcome_text(outcome), style=style)
