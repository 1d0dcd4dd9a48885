from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.streams import START, Told, article, book, recorded

from redraft.events.conditions import Condition, approved, errors, plateau, score
from redraft.events.content import Brief, Critique, DraftRef
from redraft.events.domain_events import DraftCritiqued, RunStarted, StepRequested
from redraft.events.plan import Plan, Repeat
from redraft.projections.chart import DOTS, POINTS, chart
from redraft.projections.scores import Point, goals, kept, scores

SVG = "{http://www.w3.org/2000/svg}"
ONE = DraftRef(1, "0" * 64)


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # noqa: S314 - our own


def classes(svg: str) -> list[str]:
    return [element.get("class", "") for element in drawn(svg).iter()]


def words(svg: str) -> list[str]:
    return [element.text or "" for element in drawn(svg).iter(f"{SVG}text")]


def points(count: int) -> list[Point]:
    return [Point(number, number / (count + 1)) for number in range(1, count + 1)]


def judged(path: str, score: float) -> Told:
    return ("critic", DraftCritiqued(path, 1, ONE, Critique(score)))


def test_the_scores_of_a_run_are_those_of_its_drafts():
    assert scores(article()) == (Point(1, 0.614), Point(2, 0.8125), Point(3, 0.931))
    assert scores(article()[:5]) == ()
    assert kept(article()) == 3
    assert kept(article()[:-1]) is kept(()) is None


def test_several_critics_give_the_score_that_the_run_went_on_with():
    assert scores(book())[0] == Point(1, 0.55)


def test_until_it_went_on_the_lowest_of_a_pass_stands_and_a_later_pass_counts_anew():
    told = [judged("L[1]/critics/a", 0.8), judged("L[1]/critics/b", 0.4), judged("L[1]/critics/c", 0.6)]
    assert scores(recorded("r", told)) == (Point(1, 0.4),)
    asked = StepRequested("L[1]/improve", "refiner", "i", 1, START, ONE, (1, 2, 3), 0.6)
    assert scores(recorded("r", [*told, ("c", asked)])) == (Point(1, 0.6),)
    assert scores(recorded("r", [*told, ("c", asked), judged("L[2]/critics/a", 0.9)])) == (Point(1, 0.9),)


@pytest.mark.parametrize(
    ("until", "found"),
    [
        (score >= 0.9, (0.9,)),
        ((score > 0.8) & (errors == 0) | approved, (0.8,)),
        ((score >= 0.9) | (score >= 0.7), (0.7, 0.9)),
        (plateau(), ()),
        (~(score >= 0.9), ()),
        (score <= 0.2, ()),
    ],
)
def test_the_goals_are_the_scores_that_a_plan_asks_for(until: Condition, found: tuple[float, ...]):
    plan = Plan("p", (Repeat("Outer", plateau(), 2, (Repeat("Inner", until, 2, ()),)),))
    assert goals(recorded("r", [("c", RunStarted(plan, Brief("b"), START))])) == found


def test_a_chart_has_a_dot_and_a_value_for_each_draft_a_line_at_the_goal_and_a_ring():
    svg = chart(scores(article()), goals(article()), kept(article()))
    assert [classes(svg).count(name) for name in ("dot", "value", "line", "goal", "kept")] == [3, 3, 1, 1, 1]
    assert {"0.614", "0.812", "0.931", "goal 0.90"} <= set(words(svg))


def test_a_chart_says_in_words_what_it_shows():
    svg = drawn(chart(scores(article()), (0.9,), 3, name="run"))
    assert svg.get("role") == "img"
    assert svg.get("aria-labelledby") == "run-title run-desc"
    told = {element.get("id"): element.text for element in svg}
    assert told["run-title"] == "Score by draft"
    assert told["run-desc"] == (
        "3 judged drafts: from 0.614 (draft 1) to 0.931 (draft 3); the best is draft 3 with 0.931. The goal is 0.90."
    )


def test_a_chart_of_nothing_says_so():
    assert words(chart(())) == ["no draft has been judged"]


def test_a_chart_of_one_draft_is_a_dot_without_a_line():
    svg = chart([Point(1, 0.5)])
    assert (classes(svg).count("dot"), classes(svg).count("line")) == (1, 0)


def test_a_chart_of_many_drafts_is_a_line_with_few_labels():
    svg = chart(points(1000), (), 500)
    assert (classes(svg).count("dot"), classes(svg).count("kept")) == (1, 1)
    assert len(words(svg)) < 20
    (line,) = drawn(svg).iter(f"{SVG}polyline")
    assert len(line.get("points", "").split()) == 1000


def test_the_size_of_a_chart_is_bounded():
    (line,) = drawn(chart(points(100_000), (), 77_777)).iter(f"{SVG}polyline")
    assert len(line.get("points", "").split()) <= POINTS + 2


@given(
    st.lists(st.builds(Point, st.integers(1, 10**6), st.floats()), max_size=DOTS + 2),
    st.lists(st.floats(), max_size=5),
    st.none() | st.integers(1, 9),
)
@example([Point(1, float("nan")), Point(2, float("inf")), Point(3, -1.0)], [float("nan"), 2.0], 1)
def test_a_chart_is_well_formed_and_stays_within_its_frame(series, limits, ringed):
    svg = drawn(chart(series, limits, ringed))
    _, _, width, height = (float(part) for part in svg.get("viewBox", "").split())
    for circle in svg.iter(f"{SVG}circle"):
        assert 0 <= float(circle.get("cx", "")) <= width
        assert 0 <= float(circle.get("cy", "")) <= height


def test_a_chart_loads_nothing_and_runs_nothing():
    svg = chart(scores(book()), goals(book()), kept(book()))
    assert "script" not in svg
    assert svg.count("http") == svg.count('xmlns="http://www.w3.org/2000/svg"') == 1
    assert "href" not in svg
    assert "style" not in svg
