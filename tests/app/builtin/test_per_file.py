"""What critics and refiners say of the files of a draft, as one: however many files, the draft is read as often."""

from __future__ import annotations

import pytest

from redraft.app.builtin.support.per_file import changed_files, merged
from redraft.events.messages import content
from redraft.events.messages.content import Critique, Draft, Issue, Revision, new_draft
from redraft.events.messages.folders import FOLDER, print_folder, read_folder


def draft(files: int) -> Draft:
    return new_draft(1, print_folder({f"m{number}.py": f"x = {number}\n" for number in range(files)}), FOLDER)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of each text that was read as a folder since."""
    seen: list[int] = []
    monkeypatch.setattr(content, "read_folder", lambda text: seen.append(len(text)) or read_folder(text))
    return seen


@pytest.mark.parametrize("number", [1, 30])
def test_a_draft_is_read_once_however_many_files_it_has(reads: list[int], number: int) -> None:
    made = draft(number)
    said = Critique(0.5, issues=(Issue("bad name", span=(0, 1)),))
    names = [f"m{each}.py" for each in range(number)]
    reads.clear()
    found = merged(made, dict.fromkeys(names, said), 0.5)
    assert [made.text[slice(*issue.span)] for issue in found.issues if issue.span] == ["x"] * number
    assert len(reads) == 1
    revision = changed_files(made, dict.fromkeys(names, Revision("y = 1\n")))
    assert len(reads) == 2
    assert {file.text for file in read_folder(revision.text).values()} == {"y = 1\n"}


def test_an_issue_has_no_place_where_the_files_lines_are_written_otherwise() -> None:
    made = new_draft(1, print_folder({"a.txt": "=== no file\n", "b.txt": "plain\n"}), FOLDER)
    said = Critique(0.5, issues=(Issue("bad", span=(0, 3)),))
    found = merged(made, {"a.txt": said, "b.txt": said}, 0.5)
    assert [issue.text for issue in found.issues] == ["b.txt: bad"]
