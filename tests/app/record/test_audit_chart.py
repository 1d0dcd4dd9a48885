"""The chart of a run's scores as the audit page draws it."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.streams import article, book

from redraft.app.record.auditing.audit_page import page_environment
from redraft.events.messages.scales import Scale
from redraft.projections.run_views import chart
from redraft.projections.run_views.chart import Point, kept_draft, scores
from redraft.projections.run_views.goals import Goal, goals

SVG = "{http://www.w3.org/2000/svg}"


def written(points: Sequence[Point], limits: Sequence[Goal] = (), ringed: int | None = None) -> str:
    template = page_environment().get_template("chart.svg")
    return template.render(chart=chart.chart(points, limits, ringed))


def drawn(points: Sequence[Point], limits: Sequence[Goal] = (), ringed: int | None = None) -> ElementTree.Element:
    return ElementTree.fromstring(written(points, limits, ringed))  # noqa: S314 - our own


def classes(svg: ElementTree.Element) -> list[str]:
    return [element.get("class", "") for element in svg.iter()]


def words(svg: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in svg.iter(f"{SVG}text")]


def points(count: int) -> list[Point]:
    return [Point(number, number / (count + 1)) for number in range(1, count + 1)]


def test_a_chart_has_a_dot_and_a_value_for_each_draft_a_line_at_the_goal_and_a_ring():
    svg = drawn(scores(article()), goals(article()), kept_draft(article()))
    assert [classes(svg).count(name) for name in ("dot", "value", "line", "goal", "kept")] == [3, 3, 1, 1, 1]
    assert {"0.614", "0.812", "0.931", "goal 0.90"} <= set(words(svg))


def test_a_chart_says_in_words_what_it_shows():
    svg = drawn(scores(article()), (Goal(0.9),), 3)
    assert svg.get("role") == "img"
    assert svg.get("aria-labelledby") == "scores-title scores-desc"
    told = {element.get("id"): element.text for element in svg}
    assert told["scores-title"] == "Score by draft"
    assert told["scores-desc"] == chart.chart(scores(article()), (Goal(0.9),), 3).description


def test_a_chart_of_nothing_says_so():
    assert words(drawn(())) == ["no draft has been judged"]


def test_a_chart_of_one_draft_is_a_dot_without_a_line():
    svg = drawn([Point(1, 0.5)])
    assert (classes(svg).count("dot"), classes(svg).count("line")) == (1, 0)


def test_a_chart_of_many_drafts_is_a_line_with_few_labels():
    svg = drawn(points(1000), (), 500)
    assert (classes(svg).count("dot"), classes(svg).count("kept")) == (1, 1)
    assert len(words(svg)) < 20
    (line,) = svg.iter(f"{SVG}polyline")
    assert len(line.get("points", "").split()) == 1000


@given(
    st.lists(st.builds(Point, st.integers(1, 10**6), st.floats()), max_size=chart.DOTS + 2),
    st.lists(st.builds(Goal, st.floats()), max_size=5),
    st.none() | st.integers(1, 9),
)
@example([Point(1, float("nan")), Point(2, float("inf")), Point(3, -1.0)], [Goal(float("nan")), Goal(2.0)], 1)
def test_a_chart_is_well_formed_and_stays_within_its_frame(series, limits, ringed):
    svg = drawn(series, limits, ringed)
    _, _, width, height = (float(part) for part in svg.get("viewBox", "").split())
    for circle in svg.iter(f"{SVG}circle"):
        assert 0 <= float(circle.get("cx", "")) <= width
        assert 0 <= float(circle.get("cy", "")) <= height


def test_a_chart_loads_nothing_and_runs_nothing():
    svg = written(scores(book()), goals(book()), kept_draft(book()))
    assert "script" not in svg
    assert svg.count("http") == svg.count('xmlns="http://www.w3.org/2000/svg"') == 1
    assert "href" not in svg
    assert "style" not in svg


WIDEST = 0.64 * 18
"""The width of a digit in the largest letters that a page sets charts in."""


@pytest.mark.parametrize("scale", [(0, 100), (-100, 100), (1, 10), (0, 1_000_000), None])
def test_each_label_of_a_chart_lies_within_it(scale: Scale | None) -> None:
    series = [Point(number, share, scale) for number, share in enumerate((0.30111, 0.61163, 0.76363, 0.92809), 1)]
    svg = drawn(series, (Goal(0.9, scale),), 4)
    _, _, width, _ = (float(part) for part in svg.get("viewBox", "").split())
    for each in svg.iter(f"{SVG}text"):
        if each.text == "draft":  # of narrow letters, and fits
            continue
        wide, x, anchor = len(each.text or "") * WIDEST, float(each.get("x", "")), each.get("text-anchor", "")
        start = x - {"start": 0, "middle": 0.5, "end": 1}[anchor] * wide
        assert start >= -1, each.text
        assert start + wide <= width, each.text


def test_values_are_on_the_scale_of_the_axis_and_so_is_the_goal() -> None:
    same = drawn([Point(1, 0.5, (-100, 100)), Point(2, 0.825, (-100, 100))], (Goal(0.75, (-100, 100)),))
    assert {"-100", "0", "100", "65", "goal 50 of 100"} <= set(words(same))
    mixed = drawn([Point(1, 0.3), Point(2, 0.92809, (0, 100))], (Goal(0.9, (0, 100)),))
    assert {"0", "0.5", "1", "0.30", "0.928", "goal 90 of 100 (0.90)"} <= set(words(mixed))
    titles = [each.text for each in mixed.iter(f"{SVG}title")]
    assert "draft 2: 92.809 of 100 (0.928)" in titles


def test_values_that_would_cover_each_other_are_left_out_and_the_kept_one_is_not() -> None:
    shown = chart.chart([Point(number, 0.92809, (0, 100)) for number in range(1, 13)], (), 5).dots
    assert len([each for each in shown if each.valued]) < 12
    assert [each.draft for each in shown if each.valued and each.kept] == [5]


def test_curves_without_room_are_counted_and_those_of_goals_are_drawn() -> None:
    parts = {f"c{number}": [Point(1, 0.5)] for number in range(18)}
    found = chart.chart([Point(1, 0.5)], (Goal(0.9, (1, 10), "judge.c17"),), None, parts)
    assert (len(found.curves), found.left_out) == (6, 12)
    assert found.curves[0].name == "c17"
    assert found.goal == "judge.c17 9.1 of 10"
