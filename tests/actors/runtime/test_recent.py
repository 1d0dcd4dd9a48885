"""What a coordinator and a relay keep in memory of runs."""

from __future__ import annotations

from redraft.actors.runtime.coordinating.aggregates import Recent


def test_what_was_used_longest_ago_is_let_go_when_bytes_run_out():
    recent: Recent[str] = Recent(100)
    for run in ("a", "b", "c"):
        recent.keep(run, run, 30)
    assert recent.get("a") == "a"
    recent.keep("d", "d", 30)
    assert [recent.get(run) for run in ("a", "b", "c", "d")] == ["a", None, "c", "d"]


def test_a_value_that_grows_counts_as_large_as_it_is():
    recent: Recent[str] = Recent(100)
    recent.keep("a", "a", 10)
    recent.keep("b", "b", 10)
    recent.keep("b", "more", 95)
    assert (recent.get("a"), recent.get("b")) == (None, "more")


def test_one_that_is_larger_than_all_may_be_stays_until_the_next_comes():
    recent: Recent[str] = Recent(100)
    recent.keep("a", "a", 1000)
    assert recent.get("a") == "a"
    recent.keep("b", "b", 10)
    assert (recent.get("a"), recent.get("b")) == (None, "b")


def test_what_was_dropped_counts_no_more():
    recent: Recent[str] = Recent(100)
    recent.keep("a", "a", 90)
    recent.drop("a")
    recent.drop("a")
    recent.keep("b", "b", 60)
    recent.keep("c", "c", 40)
    assert (recent.get("b"), recent.get("c")) == ("b", "c")
