"""Checkers' real output (tests/samples) read into findings, and any text at all read without an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.app.builtin.programs.parsers import (
    PARSERS,
    Finding,
    ParserName,
    line_findings,
    mypy_findings,
    pytest_findings,
    ruff_findings,
    ruff_suggestions,
)
from redraft.app.builtin.programs.pytest_critic import read_report
from redraft.app.builtin.support.workspace import MESSAGE_LENGTH, clean_line, without_folder

SAMPLES = Path(__file__).parents[2] / "samples"

RUFF = (
    Finding(1, 1, "I001", "Import block is un-sorted or un-formatted"),
    Finding(1, 8, "F401", "`sys` imported but unused"),
    Finding(2, 8, "F401", "`os` imported but unused"),
    Finding(5, 23, "B006", "Do not use mutable data structures for argument defaults"),
    Finding(10, 11, "F541", "f-string without any placeholders"),
)


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


@pytest.mark.parametrize("name", ["ruff.json", "ruff_concise.txt", "ruff_full.txt"])
def test_ruff_is_read_in_all_its_forms(name: str) -> None:
    assert ruff_findings(sample(name)) == RUFF


def test_ruff_names_syntax_errors() -> None:
    concise = "-:1:7: invalid-syntax: Expected a parameter or the end of the parameter list\nFound 1 error.\n"
    full = "invalid-syntax: unexpected EOF while parsing\n --> -:2:1\n  |\n"

    assert ruff_findings(concise) == (
        Finding(1, 7, "invalid-syntax", "Expected a parameter or the end of the parameter list"),
    )
    assert ruff_findings(full) == (Finding(2, 1, "invalid-syntax", "unexpected EOF while parsing"),)


def test_ruff_says_what_it_would_do() -> None:
    assert ruff_suggestions(sample("ruff.json"))[:2] == (
        "1:1 I001 Organize imports",
        "1:8 F401 Remove unused import: `sys`",
    )


@pytest.mark.parametrize(("name", "columns"), [("mypy.txt", (0, 0, 0)), ("mypy_columns.txt", (12, 12, 1))])
def test_mypy_is_read_with_and_without_columns(name: str, columns: tuple[int, ...]) -> None:
    findings = mypy_findings(sample(name))

    assert [(each.line, each.code) for each in findings] == [(2, "return-value"), (4, "arg-type"), (5, "attr-defined")]
    assert tuple(each.column for each in findings) == columns
    assert findings[2].message == '"str" has no attribute "nope"'


def test_mypy_without_a_line_is_a_finding_and_a_note_is_none() -> None:
    text = "x.py: error: Source file found twice\nx.py:3: note: Revealed type is int\nSuccess: no issues found\n"

    assert mypy_findings(text) == (Finding(0, 0, "", "Source file found twice"),)


def test_pytest_failures_are_named_and_captured_logs_are_none() -> None:
    assert pytest_findings(sample("pytest.txt")) == (
        Finding(0, 0, "FAILED", "test_q.py::test_a: AssertionError: sums differ"),
        Finding(0, 0, "FAILED", "test_q.py::test_d[x y]: AssertionError: assert 'x y' == 'z'"),
        Finding(0, 0, "ERROR", "test_q.py::test_c"),
    )


def test_pytest_failures_that_are_only_counted_are_one_finding() -> None:
    (finding,) = pytest_findings(sample("pytest_unnamed.txt"))

    assert finding.message.startswith("3 more")


@pytest.mark.parametrize(
    "text", ["5 passed in 0.10s", "", "no tests ran in 0.01s", "=== 2 passed, 1 skipped in 3s ==="]
)
def test_pytest_without_failures_has_no_findings(text: str) -> None:
    assert pytest_findings(text) == ()


def test_plain_lines_are_read_and_others_passed_over() -> None:
    text = "main.c:3: missing ;\nmain.c:14:7: error: no type\nsome words\n12: nothing\nC:\\x.c:9: far away\n"

    assert line_findings(text) == (
        Finding(3, 0, "", "missing ;"),
        Finding(14, 7, "", "error: no type"),
        Finding(9, 0, "", "far away"),
    )


def test_numbers_that_are_too_long_are_no_place() -> None:
    assert line_findings(f"x.c:{'9' * 5000}: what") == ()


def test_a_finding_shows_where_and_what() -> None:
    assert str(Finding(3, 5, "F401", "unused")) == "3:5 F401 unused"
    assert str(Finding(3, 0, "", "unused")) == "line 3 unused"
    assert str(Finding(0, 0, "FAILED", "test")) == "FAILED test"


def test_a_line_is_made_safe_to_show() -> None:
    assert clean_line("\x1b[31mred\x1b[0m\r\n\x07 \u202eback\tto \x1b]0;title\x07work") == "red back to work"
    assert len(clean_line("x" * 10_000)) == MESSAGE_LENGTH


def test_the_temporary_folder_is_taken_out() -> None:
    folder = Path("/somewhere/redraft-x1")

    assert without_folder(f"{folder}/draft.py:3: in {folder}", folder) == "draft.py:3: in ."


LINES = st.lists(
    st.one_of(
        st.text(max_size=60),
        st.sampled_from(
            [
                "FAILED a - b",
                "1 failed in 2s",
                "a.py:1:2: E501 x",
                "a.py:1: error: x  [y]",
                " --> a:1:2",
                "[",
                "{",
                "\x1b]",
            ]
        ),
        st.from_regex(r"[a-z.]{0,5}:[0-9]{0,12}:[0-9]{0,12}:? ?(error: )?[A-Z0-9]{0,6} ?.*", fullmatch=True),
    ),
    max_size=12,
).map("\n".join)


@pytest.mark.parametrize("name", list(PARSERS))
@given(text=LINES)
def test_no_text_makes_a_parser_raise(name: ParserName, text: str) -> None:
    for finding in PARSERS[name](text):
        assert finding.line >= 0
        assert finding.column >= 0
        assert "\n" not in str(finding)
        assert len(str(finding)) <= MESSAGE_LENGTH


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["code", "message", "location", "row", "column", "fix"]), inner, max_size=6)
    ),
    max_leaves=20,
)


@given(rows=st.lists(JSON, max_size=3))
def test_no_json_makes_the_ruff_parser_raise(rows: list[object]) -> None:
    import json

    text = json.dumps(rows)
    assert all(isinstance(each, Finding) for each in ruff_findings(text))
    assert all(isinstance(each, str) for each in ruff_suggestions(text))


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '[{"message":' * 50_000, "[1, 2", '[{"message": 3}]', "[NaN]", "[\ud800]"]
)
def test_broken_json_is_no_finding(text: str) -> None:
    assert ruff_findings(text) == ()


@pytest.mark.parametrize(
    "line",
    [
        ":1" * 200_000,
        "a:1:1: " * 50_000,
        " --> " * 100_000,
        "FAILED " * 50_000,
        "x: error: " * 50_000,
        "\x1b]" * 200_000,
    ],
)
@pytest.mark.parametrize("name", list(PARSERS))
def test_long_lines_are_read_in_linear_time(name: ParserName, line: str) -> None:
    assert len(PARSERS[name](f"{line}\n{line}")) <= 2


def report(*lines: list[object], key: str = "key") -> bytes:
    return b"".join(json.dumps([key, *line]).encode() + b"\n" for line in lines)


def test_a_report_is_counted_and_its_failures_are_placed() -> None:
    told = report(
        [
            "uncollected",
            "test_m",
            "collection failure",
            "t.py:1: in <module>\nE     File\nE   SyntaxError: no",
        ],
        ["collected", ["good", "later", "bad", "cut", "must"], ["must"]],
        ["test", "good", "call", "passed", "good", "", ""],
        ["test", "later", "setup", "skipped", "later", "", ""],
        ["test", "bad", "call", "failed", "bad", "no\nassert 1 == 2", "t.py:2: in bad\nmod.py:9: in mean\nE   no"],
        ["test", "must", "call", "failed", "must", "", ""],
        ["end", 1],
    )
    tally = read_report(told, "key", 1)

    assert tally is not None
    assert (tally.ran, tally.passed, tally.skipped, tally.is_sound) == (4, 1, 1, True)
    assert tally.errors == (
        "test_m (t.py:1): SyntaxError: no",
        "bad (mod.py:9): no assert 1 == 2",
        "cut: it did not come to its end",
    )


PASSED = (["collected", ["good", "must"], ["must"]], ["test", "good", "call", "passed", "good", "", ""])
FAILED = ["test", "must", "call", "failed", "must", "", ""]


def test_a_report_is_none_without_its_end_its_key_and_its_exit_code() -> None:
    whole = report(*PASSED, FAILED, ["end", 1])
    tally = read_report(whole, "key", 1)
    assert tally is not None
    assert (tally.ran, tally.passed, tally.is_sound) == (1, 1, True)
    assert read_report(whole, "another", 1) is None
    assert read_report(whole, "key", 0) is None
    assert read_report(report(*PASSED, FAILED), "key", 1) is None
    assert read_report(report(*PASSED, FAILED) + report(["end", 1], key="guessed"), "key", 1) is None


def test_a_report_in_which_what_must_fail_passed_is_not_sound() -> None:
    for lines, code in (((), 0), ((), 1), ((["test", "must", "call", "passed", "must", "", ""],), 1), ((FAILED,), 0)):
        tally = read_report(report(*PASSED, *lines, ["end", code]), "key", code)
        assert tally is not None
        assert not tally.is_sound


@given(
    raw=st.binary(max_size=80)
    | st.lists(st.lists(st.none() | st.integers() | st.text(max_size=5) | st.lists(st.text()), max_size=6)).map(
        lambda lines: report(*lines, ["end", 1])
    )
)
def test_no_bytes_make_the_report_reader_raise(raw: bytes) -> None:
    tally = read_report(raw, "key", 1)

    assert tally is None or tally.passed <= tally.ran
