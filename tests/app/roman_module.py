"""A module whose tests fail, in a folder of its own, for `code` to mend."""

from __future__ import annotations

from pathlib import Path

MODULE = '''"""Numbers as the Romans wrote them."""
import os as _os
SIGNS = [(1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"), (1, "I")]


def to_roman(number: int) -> str:
    """A number from 1 to 3999 in Roman numerals."""
    text = ""
    for value, sign in SIGNS:
        while number >= value:
            text += sign
            number -= value
    return text
'''
TESTS = """import pytest
from roman import to_roman


@pytest.mark.parametrize(("number", "text"), [(1, "I"), (4, "IV"), (9, "IX"), (1994, "MCMXCIV"), (3999, "MMMCMXCIX")])
def test_a_number(number, text):
    assert to_roman(number) == text


def test_nothing_is_no_number():
    with pytest.raises(ValueError):
        to_roman(0)
"""


def lay_down(folder: Path) -> None:
    """Writes `roman.py` and `tests/test_roman.py` into a folder."""
    (folder / "roman.py").write_text(MODULE)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_roman.py").write_text(TESTS)
