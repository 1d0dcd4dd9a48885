from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.streams import START, article, article_told, book, recorded

from redraft.events.messages.content import Critique, DraftRef
from redraft.events.messages.domain_events import DraftCritiqued, IterationStarted, RunEnded, StepFailed, StepRequested
from redraft.projections.run_views.tree import steps, tree
from redraft.projections.run_views.tree_model import Group, Leaf, Loop, Tree

RUNS = (article(), book())


def leaves(grown: Tree) -> dict[str, Leaf]:
    return {leaf.path: leaf for leaf in steps(grown.branches)}


def loop_at(grown: Tree, *places: int) -> Loop:
    """The loop at this place: branch, then pass and branch, and so on."""
    loop = grown.branches[places[0]]
    assert isinstance(loop, Loop)
    for number, place in zip(places[1::2], places[2::2], strict=True):
        inner = loop.iterations[number].children[place]
        assert isinstance(inner, Loop)
        loop = inner
    return loop


def test_a_run_is_its_steps_its_loops_and_its_end():
    grown = tree(article())
    first, loop, last = grown.branches
    assert isinstance(first, Leaf)
    assert isinstance(last, Leaf)
    assert isinstance(loop, Loop)
    assert (grown.workflow, grown.version, grown.seconds) == ("article", 22, 36.75)
    assert (first.name, first.role, first.draft, first.seconds) == ("write", "generator", 1, 1.75)
    assert [each.path for each in loop.iterations] == ["Refinement[1]", "Refinement[2]", "Refinement[3]"]
    assert (loop.outcome, loop.draft, loop.score) == ("accepted", 3, 0.931)
    assert grown.ended is not None
    assert (grown.ended.outcome, grown.ended.iterations, grown.ended.draft) == ("accepted", 3, 3)
    assert last.status == "done"


def test_a_step_that_was_tried_twice_counts_its_tries_and_its_whole_time():
    step = leaves(tree(article()))["Refinement[2]/improve"]
    assert (step.status, step.attempts, step.seconds, step.draft, step.error) == ("done", 2, 5.25, 3, "")


def test_a_step_that_failed_waits_and_says_why_until_it_is_asked_again():
    step = leaves(tree(article()[:13]))["Refinement[2]/improve"]
    assert (step.status, step.attempts, step.error) == ("waiting", 1, "the model is busy (503)")
    assert leaves(tree(article()[:14]))["Refinement[2]/improve"].status == "open"


def test_loops_in_loops_side_by_side_steps_and_the_closing_pass_keep_their_place():
    inner = loop_at(tree(book()), 0, 1, 1)
    assert inner.path == "Chapters[2]/ChapterRefinement"
    assert [each.label for each in inner.iterations] == ["1", "closing"]
    group = inner.iterations[1].children[0]
    assert isinstance(group, Group)
    first = next(steps(group.children))
    assert (first.path, first.score) == ("Chapters[2]/ChapterRefinement[closing]/critics/prose", 0.7)
    assert inner.closing == "1 pass was made"


def test_an_answer_that_nobody_waits_for_any_more_is_dropped():
    told = [
        ("c", IterationStarted("L", 1)),
        ("c", StepRequested("L[1]/critics/a", "critic", "a", 1, START)),
        ("c", StepRequested("L[1]/critics/b", "critic", "b", 1, START)),
        ("a", DraftCritiqued("L[1]/critics/a", 1, DraftRef(1, "0" * 64), Critique(0.5))),
    ]
    assert leaves(tree(recorded("r", told)))["L[1]/critics/b"].status == "open"
    told.append(("c", StepRequested("L[1]/improve", "refiner", "i", 1, START)))
    found = leaves(tree(recorded("r", told)))
    assert [leaf.status for leaf in found.values()] == ["done", "dropped", "open"]


def test_the_end_of_a_run_drops_what_is_still_asked_for():
    told = [("c", StepRequested("write", "generator", "w", 1, START)), ("c", RunEnded("cancelled", "enough", 0))]
    assert leaves(tree(recorded("r", told)))["write"].status == "dropped"


def test_a_step_that_failed_for_good_stays_failed_when_the_run_ends():
    told = [
        ("c", StepRequested("write", "generator", "w", 1, START)),
        ("w", StepFailed("write", 1, "error", "no")),
        ("c", RunEnded("failed", "write failed", 0)),
    ]
    assert leaves(tree(recorded("r", told)))["write"].status == "failed"


@given(st.sampled_from(RUNS), st.integers(0, 40))
def test_any_prefix_has_a_tree_that_only_grows(run, length):
    grown = tree(run[:length])
    assert grown.version == len(run[:length])
    assert set(leaves(grown)) <= set(leaves(tree(run)))
    assert (grown.ended is not None) == (length >= len(run))
    assert msgspec.json.encode(grown)


@given(st.lists(st.sampled_from(article_told()), max_size=30))
def test_events_in_no_order_at_all_do_not_break_it(told):
    tree(recorded("r", told))


@given(st.lists(st.text(alphabet="a[]1/", max_size=12), max_size=6))
def test_paths_of_any_shape_do_not_break_it_and_no_step_is_lost(paths):
    told = [("c", StepRequested(path, "critic", "a", 1, START)) for path in paths if path.strip("/")]
    grown = tree(recorded("r", told))
    found = {leaf.path for leaf in steps(grown.branches)}
    whole = {path for path in paths if path and path.strip("/") == path and "//" not in path}
    assert whole <= found


def test_a_path_as_deep_as_a_hostile_plan_makes_it_is_cut_not_followed():
    tree(recorded("r", [("c", StepRequested("a/" * 50_000 + "b", "critic", "a", 1, START))]))


def test_a_critic_that_spoke_for_or_against_a_draft_is_marked():
    """As in the lines of progress; a condition of one's own gives no verdict beside whether it holds."""

    def verdict(critique: Critique) -> str:
        draft = DraftRef(1, "a")
        asked = StepRequested("judge", "critic", "judge", 1, START, draft)
        told = DraftCritiqued("judge", 1, draft, critique)
        return leaves(tree(recorded("r", [("", asked), ("", told)])))["judge"].verdict

    assert verdict(Critique(0.5, approved=False)) == "did not approve it"
    assert verdict(Critique(0.5, approved=True)) == "approved it"
    assert verdict(Critique(0.5)) == ""
    held = Critique(0.0, approved=False, scored=False, critic="judge", measures={"judge": 0.0})
    assert verdict(held) == ""
