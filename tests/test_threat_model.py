"""Each threat of docs/threat-model.md is tried by tests that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS = [line for line in (ROOT / "docs/threat-model.md").read_text().splitlines() if re.match(r"\| \d+ \|", line)]


def test_every_threat_is_tried_by_tests_that_there_are():
    assert [int(row.split("|")[1]) for row in ROWS] == list(range(1, len(ROWS) + 1))
    for row in ROWS:
        tried = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row.split("|")[4])
        assert tried, row
        for file, name in tried:
            assert name in functions_in(ROOT / file), f"{file} has no {name}"


def functions_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
