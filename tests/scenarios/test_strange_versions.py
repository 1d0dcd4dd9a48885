"""Rows with a version that is no integer, put past the rules of a SQLite file: they concern their run alone."""

from __future__ import annotations

from typing import Final

import pytest
from tests.app.cli_calls import call, one_line, said
from tests.scenarios.test_unreadable import folder, last_of, put_event, ran, runs

__all__ = ["folder"]

VERSIONS: Final = ("9x", 2.5, 1e20, float("inf"), b"9", b"\xff", None, "")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_row_whose_version_is_no_integer_is_told_of_and_all_else_goes_on(version: object) -> None:
    """Its hash fits, and it follows the last event of its run."""
    good, bad = ran("one"), ran("two")
    put_event(bad, version, last_of(bad)[1], "run.guided.v1", {"advice": "x", "by": "x"})  # type: ignore[arg-type]
    third = ran("three")
    checked = call("audit", "--all", "--verify")
    assert checked.code == 1
    told = " ".join(f"event {version} of run {bad} (run.guided.v1) has a version that is no integer".split())
    assert told in checked.err
    for other in (good, third):
        assert other not in checked.err
        said("audit", other, "--verify")
    assert call("audit", bad, "--verify").code == 1
    assert f"run {bad}" in call("doctor", "--deep").out
    assert {str(line["run"]): line["status"] for line in runs()}.items() >= {(good, "ended"), (third, "ended")}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_with_such_a_row_is_exported_by_nobody_and_quarantine_says_why(version: object) -> None:
    good, bad = ran("one"), ran("two")
    put_event(bad, version, last_of(bad)[1], "run.guided.v1", {"advice": "x", "by": "x"})  # type: ignore[arg-type]
    refused = call("export", "-o", "all.zst")
    assert refused.code == 1, refused.err
    assert bad in one_line(refused)
    said("export", "--without", bad, "-o", "good.zst")
    aside = call("quarantine", bad, "--reason", "x")
    assert aside.code == 0 or bad in one_line(aside)
    assert good in said("list")
