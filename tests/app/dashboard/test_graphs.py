"""Charts are laid out within their axes, and say in words what they show."""

from __future__ import annotations

from redraft.app.dashboard.drawing.graphs import BOTTOM, LEFT, RIGHT, TOP, Value, bar_graph, line_graph


def number(value: float) -> str:
    return f"{value:g}"


def test_lines_lie_between_the_axes_and_are_described() -> None:
    series = {"judge": [Value(1, 0.0), Value(2, 1.0)], "other": [Value(2, 0.5)], "none": []}
    graph = line_graph("k", "Title", "day", series, number, number, top=1.0, chosen=2)
    judge, other, none = graph.lines
    assert [dot.y for dot in judge.dots] == [BOTTOM, TOP]
    assert all(LEFT < dot.x < RIGHT for line in graph.lines for dot in line.dots)
    assert (other.dots[0].text, none.dots) == ("other, 2: 0.5", ())
    assert graph.chosen == judge.dots[1].x
    assert graph.description == "judge: from 0 at 1 to 1 at 2, least 0, most 1. other: 0.5 at 2"
    assert [tick.text for tick in graph.y_ticks] == ["0", "0.5", "1"]


def test_bars_stand_on_the_axis_under_a_round_number() -> None:
    graph = bar_graph("k", "Title", "score", [("a", 3), ("b", 7), ("c", 0)], number)
    assert [round(bar.y + bar.height, 6) for bar in graph.bars] == [BOTTOM] * 3
    assert [tick.text for tick in graph.y_ticks] == ["0", "5", "10"]
    assert graph.bars[2].height == 0
    assert graph.description == "3 bars, the highest at b: 7"
    assert len(bar_graph("k", "t", "x", [(str(at), at) for at in range(60)], number).x_ticks) <= 12


def test_nothing_is_a_chart_too() -> None:
    assert line_graph("k", "t", "x", {}, number, number).description == "nothing to show"
    assert bar_graph("k", "t", "x", [], number).bars == ()
