from __future__ import annotations

import pytest
from tests.streams import START, Told, article, book, recorded

from redraft.actors.conditions.text import parse_condition
from redraft.events.messages.conditions import Condition, approved, criterion, errors, plateau, score
from redraft.events.messages.content import Brief, Critique, DraftRef
from redraft.events.messages.domain_events import DraftCritiqued, RunStarted, StepRequested
from redraft.events.messages.plan import Criterion, Plan, Repeat, Step
from redraft.projections.run_views.chart import POINTS, Point, chart, kept_draft, scores
from redraft.projections.run_views.goals import Goal, goals

ONE = DraftRef(1, "0" * 64)


def judged(path: str, score: float) -> Told:
    return ("critic", DraftCritiqued(path, 1, ONE, Critique(score)))


def test_the_scores_of_a_run_are_those_of_its_drafts():
    assert scores(article()) == (Point(1, 0.614), Point(2, 0.8125), Point(3, 0.931))
    assert scores(article()[:5]) == ()
    assert kept_draft(article()) == 3
    assert kept_draft(article()[:-1]) is kept_draft(()) is None


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
    assert goals(recorded("r", [("c", RunStarted(plan, Brief("b"), START))])) == tuple(map(Goal, found))


def test_a_chart_says_in_words_what_it_shows():
    assert chart(scores(article()), (Goal(0.9),), 3).description == (
        "3 judged drafts: from 0.614 (draft 1) to 0.931 (draft 3); the best is draft 3 with 0.931. The goal is 0.90."
    )
    assert chart(()).description == "No draft has been judged."


def test_the_size_of_a_chart_is_bounded():
    points = [Point(number, 0.5) for number in range(1, 100_001)]
    dots = chart(points, (), 77_777).dots
    assert len(dots) <= POINTS + 2
    assert [dot.draft for dot in dots if dot.drawn] == [77_777]
    assert (dots[0].draft, dots[-1].draft) == (1, 100_000)


def test_the_label_of_a_goal_covers_no_score():
    def label(*values: float) -> float:
        return chart([Point(number, value) for number, value in enumerate(values, 1)], (Goal(0.9),)).goals[0][2]

    at_the_left, in_the_middle, at_the_right = label(0.2, 0.2, 0.2), label(0.87, 0.2, 0.9), label(0.87, 0.9, 0.2)
    assert at_the_left < 60 < in_the_middle < 300 < at_the_right
    assert label(0.9, 0.9, 0.9) == at_the_left


def test_a_threshold_on_a_criterion_is_a_goal_on_its_own_scale():
    criteria = (Criterion("accuracy", "it is right"), Criterion("tone", "it is kind", (0, 100)))
    judge = Step("critic", "facts", "judge", scale=(1, 10), criteria=criteria)
    for until, found in (
        (criterion.accuracy >= 9, "accuracy 9 of 10"),
        (parse_condition("judge.tone >= 80"), "judge.tone 80 of 100"),
        (parse_condition("judge.score > 7"), "judge.score 7 of 10"),
        (parse_condition("min(criteria) >= 0.5"), "min(criteria) 0.50"),
    ):
        plan = Plan("p", (Repeat("Loop", until, 2, (judge,)),))
        assert [each.text for each in goals(recorded("r", [("c", RunStarted(plan, Brief("b"), START))]))] == [found]
    words = Plan("p", (Repeat("Loop", parse_condition("words >= 100"), 2, (judge,)),))
    assert goals(recorded("r", [("c", RunStarted(words, Brief("b"), START))])) == ()
