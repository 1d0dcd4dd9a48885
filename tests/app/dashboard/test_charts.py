"""Charts as a browser draws them: what they say is whole, on one scale, and all of it is to be had."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser
from tests.app.cli_calls import document
from tests.app.dashboard.asking import begin, ended, html
from tests.app.dashboard.browser import WIDTHS, fits, looking
from tests.app.server.served import Served, served

from redraft.events.messages.scales import score_text

CHARTED = """
from redraft.actors import Workflow, critic, criterion, generator, parallel, refiner, score, step

@generator
def write(brief):
    return brief.text

@refiner
def more(draft):
    return draft.text + " more"

def rated(number):
    criteria = {f"a_criterion_with_a_long_name_that_begins_as_others_do_{at}": "x" for at in range(3)}
    @critic(name=f"a-critic-with-a-very-long-name-that-begins-as-others-do-{number}", criteria=criteria)
    def judge(draft):
        return {"criteria": {name: min(1, draft.version / 4) for name in criteria}}
    return judge

@critic
def taste(draft):
    return 0.3

@critic(scale=(0, 100))
def clarity(draft):
    return 60.123 + 11.111 * (draft.version - 2)

@critic(scale=(1, 10), criteria={"accuracy": "it is right", "tone": "it is kind"})
def facts(draft):
    return {"criteria": {"accuracy": min(10, 4 + draft.version), "tone": 5}}

@critic(scale=(-100, 100))
def cold(draft):
    return -40 + 50 * (draft.version - 1)

@critic(scale=(0, 1_000_000))
def million(draft):
    return min(1_000_000, 450_000 + 250_000.5 * (draft.version - 1))

BEST = parallel("Drafts", step(write, name="sober"), step(write, name="lively"), judge=taste)
mixed = Workflow("mixed").start_with(BEST).repeat_until(score >= 90, max_iterations=4, body=[clarity, more])
right = Workflow("right").start_with(write).repeat_until(criterion.accuracy >= 9, max_iterations=8, body=[facts, more])
many = Workflow("many").start_with(write).repeat_until(
    score >= 0.9, max_iterations=4, body=[parallel("Panel", *[rated(at) for at in range(7)], combine="mean"), more])
below = Workflow("below").start_with(write).repeat_until(score >= 50, max_iterations=4, body=[cold, more])
large = Workflow("large").start_with(write).repeat_until(score >= 900_000, max_iterations=4, body=[million, more])
"""

AFTER = """

@critic(scale=(0, 20))
def final(draft):
    return 15

after = Workflow("after").start_with(write).repeat_until("score >= 4", max_iterations=5, body=[facts, more]).then(final)
"""

NAMES = ("mixed", "right", "many", "below", "large", "after")

CUT = """() => [...document.querySelectorAll("svg.chart text")].filter((each) => {
  const frame = each.ownerSVGElement.viewBox.baseVal, box = each.getBBox();
  return box.x < -1 || box.y < -1 || box.x + box.width > frame.width + 1 || box.y + box.height > frame.height + 1;
}).map((each) => each.textContent)"""
"""The labels of charts of which a part lies outside of its chart."""

WIDE = """() => [...document.querySelectorAll(".lane > ol > li")]
  .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.innerText)"""
"""The iterations of lanes of which a part lies outside of its cell."""


@pytest.fixture(scope="module")
def charted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str]]]:
    """A server, and a run of each workflow that has ended."""
    home: Path = tmp_path_factory.mktemp("charts")
    (home / "charts.py").write_text(CHARTED + AFTER)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("REDRAFT_STORE", f"sqlite:///{home / 'store.db'}")
        with served(home, *(f"charts.py:{name}" for name in NAMES)) as server:
            runs = {name: begin(server, "Tides", name) for name in NAMES}
            for run in runs.values():
                ended(server, run)
            yield server, runs


@pytest.mark.check
@pytest.mark.parametrize("width", WIDTHS)
async def test_no_label_of_a_chart_is_cut(
    charted: tuple[Served, dict[str, str]], chromium: Browser, width: int
) -> None:
    server, runs = charted
    pages = [*(f"/runs/{run}" for run in runs.values()), f"/compare?a={runs['mixed']}&b={runs['large']}"]
    pages += ["/critics", *(f"/whatif?workflow={name}" for name in NAMES)]
    async with looking(server.url, chromium, width) as page:
        for address in pages:
            await page.goto(address)
            assert not await page.evaluate(CUT), address
            assert not await page.evaluate(WIDE), address
            assert await fits(page), address


def test_a_goal_is_on_the_scale_of_its_score(charted: tuple[Served, dict[str, str]]) -> None:
    server, runs = charted
    page = html(server, f"/runs/{runs['mixed']}")
    assert "<dt>Goal</dt><dd>90 of 100</dd>" in page
    assert "goal 90 of 100 (0.90)" in page, "critics of several scales judged: the axis has shares"
    assert "<dt>Goal</dt><dd>50 of 100</dd>" in html(server, f"/runs/{runs['below']}")


def test_a_threshold_on_a_criterion_is_a_goal(charted: tuple[Served, dict[str, str]]) -> None:
    server, runs = charted
    page = html(server, f"/runs/{runs['right']}")
    assert "<dt>Goal</dt><dd>accuracy 9 of 10</dd>" in page
    assert re.search(r'class="goal-label"[^>]*>goal accuracy 9 of 10', page)


def test_what_a_chart_has_no_room_for_is_told_and_stands_in_the_table(charted: tuple[Served, dict[str, str]]) -> None:
    server, runs = charted
    page = html(server, f"/runs/{runs['many']}")
    assert "15 more in the numbers" in page
    criterion = "a_criterion_with_a_long_name_that_begins_as_others_do_2"
    name = f"a-critic-with-a-very-long-name-that-begins-as-others-do-6: {criterion}"
    assert f'<th scope="col">{name}</th>' in page
    critics = html(server, "/critics?workflow=many")
    drift = critics.partition("<h2>Drift</h2>")[2].partition("<h2>Agreement")[0]
    assert "2 more in the numbers" in drift
    for number in range(7):
        assert f"-begins-as-others-do-{number}</th>" in drift
    spread = critics.partition("are spread</h2>")[2].partition("<h2>Drift")[0]
    assert spread.count('<th scope="row">0.9</th>') == len(re.findall('id="spread-[0-9]+-title"', spread)) >= 7


def test_thresholds_are_on_the_scale_of_the_loop_that_they_are_for(charted: tuple[Served, dict[str, str]]) -> None:
    server, _ = charted
    page = html(server, "/whatif?workflow=after")
    assert "score &gt;= 8.2 of 10" in page
    assert "threshold, of 10<" in page
    below = html(server, "/whatif?workflow=below&at=80")
    assert "<strong>score &gt;= 60 of 100</strong>" in below
    assert 'text-anchor="middle" fill="currentColor">60</text>' in below
    (row, *_) = document("whatif", "--workflow", "below", "--until", "score >= 60 of 100")["rows"]
    assert f'data-label="Score">{score_text(row["mean_score"], tuple(row["scale"]), beside=True)}</td>' in below


def test_a_point_says_how_many_runs_count_there(charted: tuple[Served, dict[str, str]]) -> None:
    server, _ = charted
    page = html(server, "/whatif?workflow=below&at=100")
    assert 'data-label="Runs that count">1 of 1</td>' in page
    assert 'data-label="Runs that count">0 of 1</td>' in page
    assert "(1 of 1 runs)</title>" in page


def test_the_end_of_a_large_scale_is_written_out(charted: tuple[Served, dict[str, str]]) -> None:
    server, runs = charted
    for page in (f"/runs/{runs['large']}", "/runs"):
        shown = html(server, page)
        assert "of 1000000" in shown
        assert "e+06" not in shown
