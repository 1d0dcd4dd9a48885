"""The chart of a run's scores as the audit page draws it."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from hypothesis import example, given
from hypothesis import strategies as st
from tests.streams import article, book

from redraft.app.record.auditing.audit_page import page_environment
from redraft.projections.run_views import chart
from redraft.projections.run_views.chart import Point, goals, kept_draft, scores

SVG = "{http://www.w3.org/2000/svg}"


def written(points: Sequence[Point], limits: Sequence[float] = (), ringed: int | None = None) -> str:
    template = page_environment().get_template("chart.svg")
    return template.render(chart=chart.chart(points, limits, ringed))


def drawn(points: Sequence[Point], limits: Sequence[float] = (), ringed: int | None = None) -> ElementTree.Element:
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
    svg = drawn(scores(article()), (0.9,), 3)
    assert svg.get("role") == "img"
    assert svg.get("aria-labelledby") == "scores-title scores-desc"
    told = {element.get("id"): element.text for element in svg}
    assert told["scores-title"] == "Score by draft"
    assert told["scores-desc"] == chart.chart(scores(article()), (0.9,), 3).description


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
    st.lists(st.floats(), max_size=5),
    st.none() | st.integers(1, 9),
)
@example([Point(1, float("nan")), Point(2, float("inf")), Point(3, -1.0)], [float("nan"), 2.0], 1)
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
