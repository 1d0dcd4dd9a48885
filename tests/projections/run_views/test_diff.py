from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.streams import TEXTS

from redraft.projections.run_views.diff import (
    MAX_PAIRS,
    Added,
    Kept,
    Line,
    Removed,
    Skipped,
    Word,
    WordTally,
    count_changes,
    count_words,
    diff,
    find_gaps,
    fold_unchanged,
)

SIZE = 256 * 1024
TEXT = st.text(alphabet="ab \n\r.é好", max_size=60)


def text_of(line: Line) -> str:
    return line.text if isinstance(line, Kept) else "".join(word.text for word in line.words)


def before_of(lines: list[Line]) -> str:
    return "\n".join(text_of(line) for line in lines if not isinstance(line, Added))


def after_of(lines: list[Line]) -> str:
    return "\n".join(text_of(line) for line in lines if not isinstance(line, Removed))


def marked(lines: list[Line]) -> list[str]:
    """The changed lines, their changed words in brackets."""
    signs = {Removed: "-", Added: "+"}
    return [
        signs[type(line)] + "".join(f"[{word.text}]" if word.changed else word.text for word in line.words)
        for line in lines
        if not isinstance(line, Kept)
    ]


def test_words_are_marked_in_the_lines_that_changed():
    assert marked(list(diff("Teh sea rises.\nIt falls.\n", "The sea rises.\nIt falls.\n"))) == [
        "-[Teh] sea rises.",
        "+[The] sea rises.",
    ]


def test_marks_and_spaces_are_no_part_of_a_word():
    assert marked(list(diff("say (yes), now", "say (no), now"))) == ["-say ([yes]), now", "+say ([no]), now"]


def test_a_text_without_spaces_between_words_is_compared_by_sign():
    assert marked(list(diff("今日は晴れです", "今日は雨です"))) == ["-今日は[晴れ]です", "+今日は[雨]です"]


def test_neighbours_that_changed_are_one_stretch():
    assert marked(list(diff("the big dog ran home", "the small cat ran home")))[0] == "-the [big dog] ran home"


def test_lines_that_share_little_are_changed_as_a_whole():
    assert marked(list(diff("one two three four five", "six seven three eight nine ten"))) == [
        "-[one two three four five]",
        "+[six seven three eight nine ten]",
    ]


def test_a_line_that_moved_stands_where_it_went_and_where_it_came():
    lines = list(diff("a\nb\nc\nd", "b\nc\nd\na"))
    assert lines == [
        Removed(1, (Word("a", True),)),
        Kept(2, 1, "b"),
        Kept(3, 2, "c"),
        Kept(4, 3, "d"),
        Added(4, (Word("a", True),)),
    ]


def test_a_change_of_line_ends_is_a_change():
    assert [type(line) for line in diff("a\r\nb", "a\nb")] == [Removed, Added, Kept]


@given(TEXT, TEXT)
def test_both_texts_can_be_put_together_again_and_lines_are_numbered(before, after):
    lines = list(diff(before, after))
    assert before_of(lines) == before
    assert after_of(lines) == after
    assert [line.before for line in lines if not isinstance(line, Added)] == list(range(1, before.count("\n") + 2))
    assert [line.after for line in lines if not isinstance(line, Removed)] == list(range(1, after.count("\n") + 2))


@given(TEXT, TEXT)
@example("a\r", "a.\ra")
def test_words_that_are_not_marked_are_the_same_on_both_sides(before, after):
    lines = list(diff(before, after))
    kept = [
        [word.text for line in lines if isinstance(line, kind) for word in line.words if not word.changed]
        for kind in (Removed, Added)
    ]
    assert "".join("".join(kept[0]).split()) == "".join("".join(kept[1]).split())


@given(TEXT)
def test_a_text_does_not_differ_from_itself(text):
    assert all(isinstance(line, Kept) for line in diff(text, text))
    assert count_changes(text, text) == WordTally(0, 0)


@given(TEXT, TEXT)
def test_what_came_one_way_goes_the_other_way(before, after):
    there, back = count_changes(before, after), count_changes(after, before)
    assert there.added - there.removed == back.removed - back.added


@given(st.lists(st.sampled_from("abc"), max_size=20), st.lists(st.sampled_from("abc"), max_size=20))
def test_what_lies_between_the_gaps_is_the_same_in_both(old, new):
    i = j = 0
    for a, b, c, d in find_gaps(old, new, 100):
        assert old[i:a] == new[j:c]
        assert (b > a) or (d > c)
        i, j = b, d
    assert old[i:] == new[j:]


def test_a_summary_counts_words_only():
    assert count_changes(TEXTS[0], TEXTS[1]) == WordTally(added=5, removed=4)
    assert count_changes("a - b", "a - - , b") == WordTally(0, 0)


@given(TEXT, TEXT, st.integers(0, 3))
def test_folding_keeps_each_change_and_counts_what_it_leaves_out(before, after, context):
    lines = list(diff(before, after))
    shown = list(fold_unchanged(lines, context))
    assert [line for line in shown if isinstance(line, (Added, Removed))] == [
        line for line in lines if isinstance(line, (Added, Removed))
    ]
    left_out = sum(line.lines for line in shown if isinstance(line, Skipped))
    assert left_out + sum(not isinstance(line, Skipped) for line in shown) == len(lines)
    assert not any(isinstance(one, Skipped) and isinstance(two, Skipped) for one, two in pairwise(shown))


def test_folding_shows_three_lines_around_a_change():
    numbers = [str(number) for number in range(30)]
    shown = list(fold_unchanged(diff("\n".join(numbers), "\n".join([*numbers[:10], "x", *numbers[11:]]))))
    assert [type(line) for line in shown] == [Skipped, Kept, Kept, Kept, Removed, Added, Kept, Kept, Kept, Skipped]
    assert (shown[0], shown[-1]) == (Skipped(7), Skipped(16))


def hostile(name: str, seed: int) -> str:
    """A quarter of a MiB that makes a plain comparison of lines or words take minutes at the least."""
    chance = random.Random(seed)
    count = SIZE // 7
    match name:
        case "two lines over and over":
            return "".join(chance.choice("ab") + "\n" for _ in range(SIZE // 2))
        case "one line of three words":
            return " ".join(chance.choice(("foo", "bar", "qu")) for _ in range(count))
        case "the same lines in another order":
            return "\n".join(chance.sample([f"{number:06}" for number in range(count)], count))
        case "gaps just below the limit":
            blocks = (
                "\n".join((f"#{n}", *(chance.choice(("a", "", "b")) for _ in range(480)))) for n in range(SIZE // 800)
            )
            return "\n".join(blocks)
        case _:
            raise ValueError(name)


@pytest.mark.check
@pytest.mark.parametrize(
    "name",
    [
        "two lines over and over",
        "one line of three words",
        "the same lines in another order",
        "gaps just below the limit",
    ],
)
def test_a_hostile_text_is_compared_all_the_same(name):
    before, after = hostile(name, 1), hostile(name, 2)
    lines = list(diff(before, after))
    assert before_of(lines) == before
    assert after_of(lines) == after


def test_difflib_is_never_given_more_than_its_share(monkeypatch):
    given_pairs = []

    class Watched:
        def __init__(self, _junk, old, new, autojunk):
            given_pairs.append(len(old) * len(new))

        def get_opcodes(self):
            return []

    monkeypatch.setattr("redraft.projections.run_views.diff.SequenceMatcher", Watched)
    chance = random.Random(1)
    old, new = (
        [line for n in range(500) for line in (f"#{n}", *(chance.choice("ab") for _ in range(300)))] for _ in range(2)
    )
    list(find_gaps(old, new, 100_000))
    assert given_pairs
    assert max(given_pairs) <= 100_000
    assert sum(given_pairs) <= MAX_PAIRS


def test_above_a_size_lines_are_changed_as_a_whole():
    before, after = "word " * 50_000 + "old", "word " * 50_000 + "new"
    assert list(diff(before, after)) == [Removed(1, (Word(before, True),)), Added(1, (Word(after, True),))]


def test_a_tally_can_be_taken_of_any_lines():
    assert count_words([Kept(1, 1, "same"), Added(2, (Word("two new", True), Word(" old", False)))]) == WordTally(2, 0)


def test_a_change_in_a_draft_of_several_files_stands_below_the_name_of_its_file():
    def text(a: str, b: str, c: str) -> str:
        body = "\n".join(f"line {number}" for number in range(20))
        return "".join(f"=== {name}.py\n{body}\n{last}\n" for name, last in (("a", a), ("b", b), ("c", c)))

    shown = [
        line if isinstance(line, Skipped) else getattr(line, "text", "*")
        for line in fold_unchanged(diff(text("1", "2", "3"), text("1", "4", "5")), files=True)
    ]
    around = ["line 17", "line 18", "line 19"]
    assert shown == [
        *(Skipped(22), "=== b.py", Skipped(17), *around, "*", "*"),
        *("=== c.py", "line 0", "line 1", Skipped(15), *around, "*", "*", ""),
    ]
    first = list(fold_unchanged(diff(text("1", "2", "3"), text("0", "2", "3")), files=True))
    assert [each.text for each in first if isinstance(each, Kept) and each.text.startswith("===")] == [
        "=== a.py",
        "=== b.py",
    ]
