"""The rows of trees are what `tree` folds of the same events. On every place alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.projections.logs import busy_log, contest_told, stateful_told, view_of
from tests.properties.test_deciding_properties import Run
from tests.streams import article, book, recorded

from redraft.events.messages.conditions import score
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Parallel, Plan, Repeat, Step
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.read_models.tree_nodes import TreeNode, tree_nodes
from redraft.projections.run_views.tree import steps, tree
from redraft.projections.run_views.tree_model import Branch, Group, Leaf, Loop

Fact = tuple[object, ...]


def folded(branches: Iterable[Branch], parent: str = "") -> Iterator[Fact]:
    """What the tree says of each node, in its order."""
    for each in branches:
        match each:
            case Leaf():
                yield each.path, parent, each.status, each.score, each.draft, each.attempts, each.finished, each.actor
            case Group():
                yield each.path, parent, "parallel"
                yield from folded(each.children, each.path)
            case Loop():
                yield each.path, parent, each.outcome or "", each.score, each.draft
                for inner in each.iterations:
                    yield inner.path, each.path, inner.started
                    yield from folded(inner.children, inner.path)


def kept(nodes: Iterable[TreeNode]) -> Iterator[Fact]:
    """The same of the rows."""
    for n in nodes:
        match n.kind:
            case "step" | "approval":
                yield n.path, n.parent, n.status, n.score, n.draft, n.attempts, n.ended, n.actor
            case "parallel":
                yield n.path, n.parent, "parallel"
            case "loop":
                yield n.path, n.parent, n.outcome, n.score, n.draft
            case "iteration":
                yield n.path, n.parent, n.started


def placed(*runs: Iterable[Recorded]) -> list[Recorded]:
    return [replace(each, position=at) for at, each in enumerate((e for run in runs for e in run), 1)]


@given(st.integers(0, 200))
async def test_the_nodes_of_runs_at_any_version_are_what_their_events_fold_to(seed: int) -> None:
    log = busy_log(6, seed)
    async with view_of(log) as views:
        for run in {event.run for event in log}:
            events = [event for event in log if event.run == run]
            assert list(kept(await tree_nodes(views, run))) == list(folded(tree(events).branches))


async def test_a_run_of_three_iterations_is_known_node_by_node(anywhere: StorageLocation) -> None:
    async with view_of(article(run="a"), anywhere) as views:
        found = [
            (n.path, n.parent, n.kind, n.iteration, n.actor, n.status, n.attempts, n.score, n.draft)
            for n in await tree_nodes(views, "a")
        ]
    assert found == [
        ("write", "", "step", None, "write", "done", 1, None, 1),
        ("Refinement", "", "loop", None, "", "done", 0, 0.931, 3),
        ("Refinement[1]", "Refinement", "iteration", 1, "", "done", 0, None, None),
        ("Refinement[1]/judge", "Refinement[1]", "step", None, "judge", "done", 1, 0.614, 1),
        ("Refinement[1]/improve", "Refinement[1]", "step", None, "improve", "done", 1, None, 2),
        ("Refinement[2]", "Refinement", "iteration", 2, "", "done", 0, None, None),
        ("Refinement[2]/judge", "Refinement[2]", "step", None, "judge", "done", 1, 0.8125, 2),
        ("Refinement[2]/improve", "Refinement[2]", "step", None, "improve", "done", 2, None, 3),
        ("Refinement[3]", "Refinement", "iteration", 3, "", "done", 0, None, None),
        ("Refinement[3]/judge", "Refinement[3]", "step", None, "judge", "done", 1, 0.931, 3),
        ("save", "", "step", None, "save", "done", 1, None, 3),
    ]


async def test_a_contest_that_was_cancelled_is_known_node_by_node(anywhere: StorageLocation) -> None:
    """One of three writers answered in time; the critic was to try again when the run was cancelled."""
    async with view_of(recorded("c", contest_told()), anywhere) as views:
        found = [
            (n.path, n.parent, n.kind, n.actor, n.status, n.attempts, n.draft) for n in await tree_nodes(views, "c")
        ]
    assert found == [
        ("Ideas", "", "parallel", "", "done", 0, None),
        ("Ideas/quick", "Ideas", "step", "quick", "done", 1, 1),
        ("Ideas/slow", "Ideas", "step", "slow", "dropped", 1, None),
        ("Ideas/broken", "Ideas", "step", "broken", "failed", 2, None),
        ("judge", "", "step", "judge", "dropped", 1, None),
    ]


async def test_loops_in_loops_panels_failures_and_retries_agree_everywhere(anywhere: StorageLocation) -> None:
    runs = [article(run="a"), book(run="b"), recorded("c", contest_told())]
    async with view_of(placed(*runs), anywhere) as views:
        for name, run in zip("abc", runs, strict=True):
            assert list(kept(await tree_nodes(views, name))) == list(folded(tree(run).branches))
        inner = {n.path: n for n in await tree_nodes(views, "b")}
        assert inner["Chapters[2]/ChapterRefinement[1]"].iteration == 1
        assert inner["Chapters[2]/ChapterRefinement[closing]"].iteration is None
        assert {n.status for n in inner.values()} == {"done"}
        left = {n.path: n.status for n in await tree_nodes(views, "c")}
        assert (left["Ideas/slow"], left["Ideas/broken"], left["judge"]) == ("dropped", "failed", "dropped")


async def test_what_a_fork_repeats_is_told_as_its_parents(anywhere: StorageLocation) -> None:
    fork = [replace(each, repeats=each.id if each.version > 1 else "") for each in article(run="fork")]
    async with view_of(placed(fork), anywhere) as views:
        assert all(n.repeated for n in await tree_nodes(views, "fork"))
    async with view_of(placed(article(run="own")), anywhere) as views:
        assert not any(n.repeated for n in await tree_nodes(views, "own"))


PANEL = Parallel("panel", (Step("critic", "a", "a"), Step("critic", "b", "b")))
OUT = Parallel("out", (Step("publisher", "x", "x"), Step("publisher", "y", "y")))


def answered(run: Run, *left: str, verdict: bool | None = None) -> Run:
    """The run with every request answered but these, which fail for good."""
    while run.state.status == "running":
        path = next(iter(run.state.open))
        if path in left:
            run.fail(path, retryable=False)
        else:
            run.answer(path, value=0.5, text=f"text {len(run.said)}", verdict=verdict)
    return run


async def statuses(run: Run) -> dict[str, str]:
    events = recorded("r", [("somebody", event) for event in run.events])
    async with view_of(placed(events)) as views:
        return {node.path: node.status for node in await tree_nodes(views, "r")}


async def test_a_parallel_that_a_run_ends_with_is_done() -> None:
    write = Step("generator", "write", "write")
    found = await statuses(answered(Run(Plan("p", (write, PANEL, OUT)))))
    assert (found["panel"], found["out"]) == ("done", "done")
    found = await statuses(answered(Run(Plan("p", (write, PANEL)))))
    assert set(found.values()) == {"done"}


async def test_a_parallel_that_a_body_and_the_run_end_with_is_done() -> None:
    loop = Repeat("L", score >= 0.9, 2, (PANEL,))
    found = await statuses(answered(Run(Plan("p", (Step("generator", "write", "write"), loop))), verdict=False))
    assert (found["L[1]/panel"], found["L[2]/panel"], found["L[2]/panel/b"]) == ("done", "done", "done")


async def test_a_parallel_in_which_a_run_fails_is_dropped_but_not_one_that_published_after() -> None:
    write, extra = Step("generator", "write", "write"), Step("critic", "extra", "extra")
    plan = Plan("p", (write, Repeat("L", score >= 0.4, 1, (PANEL,)), extra, OUT), "publish_best")
    assert (await statuses(answered(Run(plan), "extra")))["out"] == "done"
    assert (await statuses(answered(Run(plan), "out/y")))["out"] == "dropped"
    assert (await statuses(answered(Run(plan), "L[1]/panel/b")))["L[1]/panel"] == "dropped"


async def test_steps_without_a_role_are_the_same_in_rows_at_every_version(anywhere: StorageLocation) -> None:
    whole = recorded("s", stateful_told())
    for version in range(1, len(whole) + 1):
        async with view_of(whole[:version], anywhere if version == len(whole) else None) as views:
            assert list(kept(await tree_nodes(views, "s"))) == list(folded(tree(whole[:version]).branches)), version
    assert {leaf.path: (leaf.role, leaf.status, leaf.attempts) for leaf in steps(tree(whole).branches)} == {
        "Search/web": ("step", "done", 1),
        "Search/books": ("step", "done", 2),
        "write": ("generator", "done", 1),
        "Tests[1]/run_tests": ("step", "done", 1),
    }
