from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.events.errors import ContentError
from redraft.events.messages.content import new_draft
from redraft.events.messages.folders import (
    FOLDER,
    MOST_FILES,
    File,
    check_folder,
    file_spans,
    normal_folder,
    print_folder,
    read_folder,
    sections,
)

NAMES = st.text("abcXY09_- é", min_size=1, max_size=6).filter(lambda name: name == name.strip() and name[-1] != ".")
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
LINES = st.sampled_from(
    ["=== a.py", "\\=== b", "\\\\=== c | base64", "x = 1", "", "=====", " === d", "\r", "é\ufeff", "=== "]
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, st.lists(LINES, max_size=5), st.sampled_from(["", "\n"]))
CONTENTS = st.one_of(TEXTS.map(str.encode), st.binary(max_size=200), st.text(max_size=20).map(str.encode))
FILES = st.builds(File, CONTENTS, st.booleans())


@given(st.dictionaries(PATHS, FILES, min_size=1, max_size=6))
def test_files_are_what_they_were_and_have_one_text(files: dict[str, File]) -> None:
    try:
        text = print_folder(files)
    except ContentError as error:
        assert "capitals" in str(error) or "of a file and of a folder" in str(error)  # noqa: PT017 - both may be drawn
        return
    assert read_folder(text) == files
    assert normal_folder(text) == text
    check_folder(text)
    assert "".join(sections(text)) == text
    for path in files:
        first, last = file_spans(text)[path]
        assert read_folder(text[text.rindex("=== ", 0, first) : last]) == {path: files[path]}


def test_the_text_is_what_people_would_write() -> None:
    files: dict[str, File | str | bytes] = {
        "src/rates.py": "RATE = 0.2\n",
        "README": "No end",
        "run.sh": File(b"#!/bin/sh\n", executable=True),
        "empty": "",
        "data.bin": b"\0\1\2",
        "notes.txt": "=== a heading\n\\=== another\n",
    }
    assert print_folder(files) == (
        "=== README | no newline at end\nNo end\n=== data.bin | base64\nAAEC\n=== empty\n"
        "=== notes.txt\n\\=== a heading\n\\\\=== another\n"
        "=== run.sh | executable\n#!/bin/sh\n=== src/rates.py\nRATE = 0.2\n"
    )


def test_what_a_model_writes_is_put_in_order() -> None:
    assert normal_folder("=== b.py\ny = 2\n=== a.py\nx = 1") == "=== a.py\nx = 1\n=== b.py\ny = 2\n"


@pytest.mark.parametrize(
    "path",
    [
        "", "/etc/passwd", "../up", "a/../../up", "a//b", "./a", "a/.", "a/..", "~/a", "a\\b", "a|b", "a\0b", "a\tb",
        ".git/config", "a/.git/hooks/x", "a/.GIT/x", "GIT~1/config", "bare.git/x", ".env", "a/.envrc", "redraft.toml",
        "x/Redraft.TOML", "a ", " a", "a./b", "a" * 256, "é" * 128, "/".join(["a" * 100] * 11), "a/\u202eb", "a\x7f",
    ],
)  # fmt: skip
def test_no_path_leads_out_or_is_heeded_by_programs(path: str) -> None:
    with pytest.raises(ContentError, match="the path"):
        print_folder({path: "x"})
    with pytest.raises(ContentError):
        read_folder(f"=== {path}\nx\n")


@pytest.mark.parametrize(
    "paths",
    [
        ("A.py", "a.py"), ("Src/a", "src/b"), ("a", "a/b"), ("é", "e\u0301"), ("HEAD", "objects/x", "refs/y"),
        ("x/head", "x/objects/a", "x/refs/b"), ("x/HEAD", "x/commondir"),
    ],
)  # fmt: skip
def test_paths_that_a_disk_or_git_would_take_for_others_are_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(ContentError):
        print_folder(dict.fromkeys(paths, "x"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x = 1\n", "begins with a line"),
        ("\n=== a\n", "begins with a line"),
        ("=== \nx\n", "names no file"),
        ("=== a | rotten\nx\n", "is said to be rotten"),
        ("=== a | base64 | base64\nAAEC\n", "is said to be"),
        ("=== a | base64\nAAE\n", "no base64"),
        ("=== a | base64\nAA=C\n", "no base64"),
        ("=== a\nx\n=== a\ny\n", "twice"),
        ("=== a |\nx\n", "names no file"),
    ],
)
def test_what_is_no_folder_is_refused_with_the_place(text: str, fault: str) -> None:
    with pytest.raises(ContentError, match=fault):
        read_folder(text)


def test_a_draft_has_at_most_so_many_files() -> None:
    print_folder({f"{number:04}": "" for number in range(MOST_FILES)})
    with pytest.raises(ContentError, match="2,001 files"):
        print_folder({f"{number:04}": "" for number in range(MOST_FILES + 1)})
    with pytest.raises(ContentError, match="0 files"):
        print_folder({})


def test_a_draft_is_in_order_or_none() -> None:
    good = print_folder({"b.py": "y = 2\n", "a.py": "x = 1\n"})
    assert new_draft(1, good, FOLDER).files == {"a.py": File(b"x = 1\n"), "b.py": File(b"y = 2\n")}
    assert new_draft(1, good).files == {}
    for text in ("=== b.py\ny = 2\n=== a.py\nx = 1\n", "=== a.py\nx = 1", "x = 1\n", "=== a | base64\nAA EC\n"):
        with pytest.raises(ContentError):
            new_draft(1, text, FOLDER)
