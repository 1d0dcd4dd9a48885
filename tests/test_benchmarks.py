"""The benchmarks of a long history and of growth run, and rebuilt rows are equal. How fast they are is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[1]


def test_what_if_over_many_runs_is_measured():
    command = [sys.executable, str(ROOT / "benchmarks/whatif.py"), "--runs", "6", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    assert (done.returncode, done.stderr) == (0, "")
    recorded, imagined = json.loads(done.stdout)["rows"]
    assert (recorded["runs"], imagined["runs"], imagined["policy"]) == (6, 6, "until accuracy >= 8")
    assert imagined["mean_steps"] < recorded["mean_steps"]


@pytest.mark.parametrize(("kind", "filled"), [("sqlite", [True]), ("postgresql", [True, False])])
def test_a_history_is_measured(tmp_path: Path, kind: str, filled: list[bool], request: pytest.FixtureRequest):
    """A store that was filled before is measured as it is."""
    store = str(request.getfixturevalue("postgres_url")) if kind != "sqlite" else f"sqlite:///{tmp_path}/history.db"
    command = [sys.executable, str(ROOT / "benchmarks/history.py"), "--events", "1500", "--store", store, "--json"]
    for fills in filled:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
        assert (done.returncode, done.stderr) == (0, "")
        figures = json.loads(done.stdout)
        assert figures["events"] >= 1500
        assert figures["rebuilt_equal"] is True
        assert figures["faults"] == 0
        assert bool(figures["filled_per_s"]) is fills


def test_a_loop_is_measured_beside_the_same_by_hand() -> None:
    """Those of other libraries are measured in environments of their own, which are not here."""
    command = [sys.executable, "-m", "peers", "--only", "by_hand,redraft", "--seconds", "0.2", "--repeat", "2"]
    done = subprocess.run(
        [*command, "--json"], cwd=ROOT / "benchmarks", capture_output=True, text=True, check=False, timeout=150
    )
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads(done.stdout)
    assert list(figures) == ["by_hand, sqlite", "redraft, sqlite"]
    for rows in figures.values():
        assert list(rows) == ["1", "64"]
        assert all(len(each) == 2 and min(one["loops_per_s"] for one in each) > 0 for each in rows.values())


def test_a_peer_that_there_is_not_is_one_line() -> None:
    command = [sys.executable, "-m", "peers", "--only", "nobody"]
    done = subprocess.run(command, cwd=ROOT / "benchmarks", capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "--only: no peer is named 'nobody'; there are burr, by_hand, eventsource, faststream, langgraph, redraft"
    )


def test_what_open_pages_cost_is_measured() -> None:
    command = [sys.executable, str(ROOT / "benchmarks/dashboard.py"), "--events", "300", "--turns", "1", "--asked", "3"]
    done = subprocess.run(
        [*command, "--seconds", "2", "--json"], capture_output=True, text=True, check=False, timeout=150
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["events"] > 300
    assert figures["page_p50_ms"] > 0
    assert figures["watched"]["serving_ms_per_s"] > 0


def test_growth_is_measured() -> None:
    """Every recorded run stays in the log for the larger size; a figure is CPU time and so never nothing."""
    command = [sys.executable, str(ROOT / "benchmarks/growth.py"), "--only", "recorded", "--recorded", "2,4"]
    done = subprocess.run(
        [*command, "--repeat", "1", "--json"], capture_output=True, text=True, check=False, timeout=150
    )
    assert (done.returncode, done.stderr) == (0, "")
    (figures,) = json.loads(done.stdout).values()
    assert list(figures) == ["2", "4"]
    assert all(each > 0 for each in figures.values())
