"""The state of a run on its page: its values, who changed them, as they stood, and the steps that did."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from tests.app.cli_calls import document, said, until
from tests.app.dashboard.asking import ended, html
from tests.app.dashboard.browser import WIDTHS, fits, looking
from tests.app.server.served import Served, served
from tests.app.stateful import STATEFUL


@pytest.fixture(scope="module")
def stateful(folder: Path) -> Iterator[Served]:
    (folder / "article.py").write_text(STATEFUL)
    with served(folder, "article.py:judged", "article.py:tested", "article.py:free") as running:
        yield running


def begin(server: Served, workflow: str, **state: object) -> str:
    answered = server.client.post("/runs", json={"workflow": workflow, "brief": "Tides", "state": state})
    assert answered.status_code == 201, answered.text
    run = str(answered.json()["run"])
    ended(server, run)
    return run


def row(page: str, name: str) -> str:
    """The row of a value in the table of the state, without tags."""
    (found,) = re.findall(rf'<tr><th scope="row">{name}</th>(.*?)</tr>', page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", found).split())


def test_the_page_shows_each_value_with_its_last_change(stateful: Served) -> None:
    run = begin(stateful, "judged", audience="<b>children</b>")
    page = html(stateful, f"/runs/{run}")
    assert row(page, "audience") == "&#34;&lt;b&gt;children&lt;/b&gt;&#34; the brief 1"
    assert row(page, "sources") == "[&#34;tides.org&#34;] step research research 3"
    assert re.search(rf'<a href="/runs/{run}\?at=3">3</a>', page)
    assert re.fullmatch(r"true step run_tests Loop\[2\]/run_tests \d+", row(page, "tests_pass"))
    past = html(stateful, f"/runs/{run}?at=1")
    assert row(past, "sources") == "null the plan 1"
    assert "<b>children</b>" not in page


def test_steps_without_a_role_are_in_the_lanes_with_what_they_changed(stateful: Served) -> None:
    page = html(stateful, f"/runs/{begin(stateful, 'tested')}")
    assert "step · tests_pass = false" in page
    assert "step · tests_pass = true" in page
    assert "no score: the loop ends by its own condition" in page
    assert "no score" not in html(stateful, f"/runs/{begin(stateful, 'judged')}")


def test_a_page_lists_so_many_values_and_says_how_many_more_there_are(stateful: Served) -> None:
    values = {f"v{number}": number for number in range(250)}
    run = begin(stateful, "free", **values)
    page = html(stateful, f"/runs/{run}")
    assert row(page, "v199") == "199 the brief 1"
    assert "v200" not in page.split('id="state"')[1].split("</section>")[0]
    assert f"51 more values: <code>redraft show {run} --state</code>" in page
    assert "v249" in stateful.client.get(f"/runs/{run}/audit.html").text


def test_a_run_without_state_has_no_table_of_it(stateful: Served) -> None:
    said("run", "The sea is calm.", "-q")
    run = str(document("show", "last")["run"])
    until(lambda: any(each["run"] == run for each in stateful.get("/runs")["runs"]))
    assert 'id="state"' not in html(stateful, f"/runs/{run}")


def test_two_runs_are_compared_by_their_states_too(stateful: Served) -> None:
    one, other = begin(stateful, "tested", limit=5), begin(stateful, "tested", audience="experts")
    page = html(stateful, f"/compare?a={one}&b={other}")
    assert row(page, "audience") == "&#34;adults&#34; &#34;experts&#34;"
    assert row(page, "limit") == "5 3"
    assert "tests_pass" not in page.split("<h2>States</h2>")[1].split("<h2>")[0]
    assert "<h2>States</h2>" not in html(stateful, f"/compare?a={one}&b={one}")


def test_the_audit_page_has_the_state_and_each_change(stateful: Served) -> None:
    run = begin(stateful, "judged")
    page = stateful.client.get(f"/runs/{run}/audit.html").text
    assert re.search(r'<section id="state">.*tests_pass.*step run_tests', page, re.DOTALL)
    assert "step run_tests set tests_pass = false" in page


@pytest.mark.check
@pytest.mark.parametrize("width", WIDTHS)
async def test_the_table_fits_the_page(stateful: Served, chromium: Browser, width: int) -> None:
    run = begin(stateful, "judged", notes="a long note " * 40)
    async with looking(stateful.url, chromium, width) as page:
        await page.goto(f"/runs/{run}")
        await expect(page.locator("#state tbody tr")).to_have_count(5)
        await expect(page.locator("#state")).to_contain_text("tests_pass")
        assert await fits(page)
