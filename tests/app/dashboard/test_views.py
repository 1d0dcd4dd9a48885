"""What pages compute before they show it: lanes, pictures of plans, and texts with notes."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.projections.random_runs import random_run

from redraft.actors import Workflow, critic, generator, parallel, refiner, repeat, step
from redraft.actors.deciding.evolve import fold
from redraft.app.dashboard.drawing.lanes import SHOWN, Lane, lanes
from redraft.app.dashboard.drawing.plan_picture import picture
from redraft.app.dashboard.pages.draft import Note, paragraphs, rendered
from redraft.app.dashboard.pages.run import now_text, run_shown
from redraft.app.dashboard.pages.signing_in import own_address
from redraft.app.dashboard.templating import environment, kept
from redraft.app.record.auditing.audit_page import leaf_row
from redraft.events.messages.content import Issue
from redraft.events.messages.domain_events import ApprovalRequested
from redraft.projections.run_views.chart import Point
from redraft.projections.run_views.tree import tree
from redraft.projections.run_views.tree_model import Group, Iteration, Leaf, Loop, Tree


def loop(depth: int, iterations: int = 1) -> Loop:
    path = "/".join(f"L{each}[1]" for each in range(depth, 0, -1))
    inner = (loop(depth - 1),) if depth > 1 else ()
    return Loop(
        path, f"L{depth}", tuple(Iteration(f"{path}[{n}]", str(n), None, inner) for n in range(1, iterations + 1))
    )


def test_lanes_of_loops_in_each_other_50_deep_are_folded_but_for_the_outermost() -> None:
    shown = environment().from_string('{% from "lanes.html" import items %}{{ items(course, "r", true) }}')
    page = shown.render(course=lanes([loop(50)]))
    assert page.count('<details class="lane') == 50
    assert page.count(" open>") == 1


def test_of_many_iterations_the_first_and_the_last_are_shown() -> None:
    (lane,) = lanes([loop(1, 1_000)])
    assert isinstance(lane, Lane)
    assert (lane.count, lane.omitted, len(lane.cells)) == (1_000, 1_000 - SHOWN, SHOWN)
    assert (lane.cells[lane.cut - 1].label, lane.cells[lane.cut].label) == ("20", "981")


def test_an_iteration_that_was_shown_before_is_not_made_again_and_one_that_changed_is() -> None:
    kept.cache_clear()
    shown = environment().from_string('{% from "lanes.html" import items %}{{ items(course, "r", true) }}')
    course = lanes([loop(1, 9)])
    assert shown.render(course=course) == shown.render(course=course)
    assert (kept.cache_info().misses, kept.cache_info().hits) == (9, 9)
    assert "iteration-L1[1][10]" in shown.render(course=lanes([loop(1, 10)]))
    assert kept.cache_info().misses == 10


def test_an_iteration_has_the_score_that_all_critics_gave_together_and_critics_their_shares_beside_theirs() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    judged = replace(Leaf("L[1]/Panel/judge", "judge", "critic", "judge", "done", 1, now), draft=1)
    plain = replace(judged, path="L[1]/Panel/plain", name="plain", actor="plain", score=0.75)
    panel = Group("L[1]/Panel", "Panel", (replace(judged, score=0.25, scale=(0, 8)), plain))
    course = [Loop("L", "L", (Iteration("L[1]", "1", None, (panel,)),))]
    (lane,) = lanes(course, {1: Point(1, 0.5)})
    assert isinstance(lane, Lane)
    assert lane.cells[0].score == 0.5
    shown = environment().from_string('{% from "lanes.html" import items %}{{ items(course, "r", true) }}')
    page = shown.render(course=(lane,))
    assert "2 of 8 (0.25)" in page
    assert "0.75" in page


def test_boxes_of_a_plan_lie_within_their_frames() -> None:
    @generator
    def write(brief: str) -> str:
        return brief

    @critic
    def judge(draft: str) -> float:
        return 1.0

    @refiner
    def improve(draft: str) -> str:
        return draft

    inner = repeat("Inner", until="score >= 1", max_iterations=2, body=[judge, improve])
    plan = (
        Workflow("w").start_with(write).then(repeat("Outer", until="outputs >= 1", max_iterations=2, body=[inner])).plan
    )
    found = picture(plan, Tree("r", "w", 1, None, 0.0, ()))
    _, outer, within, *steps = found.boxes
    assert (outer.path, within.path) == ("Outer", "Outer/Inner")
    assert [each.path for each in steps] == ["Outer/Inner/judge", "Outer/Inner/improve"]
    for frame, box in [(outer, within), *((within, each) for each in steps)]:
        assert frame.x < box.x
        assert frame.y < box.y
        assert box.x + box.width < frame.x + frame.width
        assert box.y + box.height < frame.y + frame.height
    assert "Nothing is at work" in found.description


@given(st.text("a\n ", max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5))
def test_a_text_with_notes_is_the_text(text: str, places: list[tuple[int, int]]) -> None:
    spans = [(min(place), max(place)) for place in places if 0 <= min(place) < max(place) <= len(text)]
    notes = [Note(number, "judge", Issue("x"), span) for number, span in enumerate(spans, 1)]
    found = list(paragraphs(text, notes))
    assert "".join(piece.text for each in found for piece in each.pieces) == text
    assert sorted(note.number for each in found for note in each.notes) == [note.number for note in notes]
    for note in notes:
        marked = "".join(p.text for each in found for p in each.pieces if note.number in p.notes)
        assert note.span
        assert marked == text[slice(*note.span)]


def test_rendered_markdown_holds_nothing_that_runs_or_loads() -> None:
    hostile = (
        "<script>x()</script> ![p](http://evil/x.png) [a](javascript:x()) [b](https://ok) <b onclick=x()>b</b>\n\n- one"
    )
    html = str(rendered(hostile))
    assert "<li>one</li>" in html
    assert 'href="https://ok"' in html
    for bad in ("<script", "<img", 'href="javascript', "<b "):
        assert bad not in html


def test_only_pages_of_this_server_are_gone_on_to() -> None:
    assert own_address("/runs?tag=a") == "/runs?tag=a"
    for other in ("//evil", "https://evil", "/\\evil", "javascript:x", "", "/a\nb"):
        assert own_address(other) == "/"


@given(st.integers(0, 200))
def test_a_draft_waits_on_the_page_of_a_run_exactly_where_it_waits_in_its_state(seed: int) -> None:
    events = random_run(seed).recorded()
    for length in range(1, len(events) + 1):
        approval = fold(event.data for event in events[:length]).approval
        assert bool(tree(events[:length]).waiting) == (approval is not None)
    asked = next((n for n, event in enumerate(events, 1) if isinstance(event.data, ApprovalRequested)), 0)
    if asked:
        request = events[asked - 1].data
        assert isinstance(request, ApprovalRequested)
        assert run_shown(events[:asked], None, ()).waiting == request.draft.version


def test_of_a_run_that_is_over_no_loop_runs() -> None:
    (running,) = lanes([loop(1)])
    (over,) = lanes([loop(1)], over=True)
    assert isinstance(running, Lane)
    assert isinstance(over, Lane)
    assert (running.running, running.message) == (True, "running")
    assert (over.running, over.message) == (False, "not finished")


def test_a_closing_look_is_no_iteration_and_has_the_name_that_the_command_line_gives_it() -> None:
    labels = ("1", "2", "closing", "edit1")
    course = [Loop("L", "L", tuple(Iteration(f"L[{each}]", each, None, ()) for each in labels))]
    (lane,) = lanes(course)
    assert isinstance(lane, Lane)
    assert lane.count == 2
    assert [each.label for each in lane.cells] == ["1", "2", "closing look", "look at a person's draft"]
    shown = environment().from_string('{% from "lanes.html" import items %}{{ items(course, "r", true) }}')
    assert "2 iterations and a closing look and a look at a person&#39;s draft ·" in shown.render(course=(lane,))


def test_a_judge_of_drafts_stands_apart_from_those_it_judges() -> None:
    @generator
    def write(brief: str) -> str:
        return brief

    @critic
    def taste(draft: str) -> float:
        return 1.0

    drafts = parallel("Drafts", step(write, name="sober"), step(write, name="lively"), judge=taste)
    found = picture(Workflow("w").start_with(drafts).plan, Tree("r", "w", 1, None, 0.0, ()))
    frame, sober, lively, judge = found.boxes
    assert (judge.title, judge.note) == ("taste", "judges each of them")
    assert judge.y - lively.y > lively.y - sober.y
    assert judge.y + judge.height < frame.y + frame.height


def test_a_run_that_is_paused_or_goes_on_says_so_in_plain_words() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    begun = tree(random_run(1).recorded()[:2])
    assert now_text(replace(begun, paused="by somebody: wait")) == "it is paused by somebody: wait"
    assert now_text(replace(begun, quarantined="by ann: broken")) == "it was set aside by ann: broken"
    skipped = Leaf("L[1]/judge", "judge", "critic", "judge", "skipped", 0, now, error="the score is low")
    assert leaf_row(skipped, 0).message == "critic judge · not asked · the score is low"
