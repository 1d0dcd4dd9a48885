from __future__ import annotations

import os
from pathlib import Path

import pytest

from redraft.actors.checkout import check_out, folder_text
from redraft.events.errors import ContentError
from redraft.events.messages.folders import File, print_folder, read_folder

FILES = {"src/a.py": File(b"x = 1\n"), "b.bin": File(b"\0\xff"), "run.sh": File(b"#!/bin/sh\n", executable=True)}


def test_what_is_checked_out_is_read_back(tmp_path: Path) -> None:
    check_out(FILES, tmp_path / "there")
    assert read_folder(folder_text(tmp_path / "there")) == FILES
    assert (tmp_path / "there" / "src" / "a.py").read_text() == "x = 1\n"
    assert os.access(tmp_path / "there" / "run.sh", os.X_OK)


def test_what_is_hidden_or_made_by_programs_is_no_part_of_a_draft(tmp_path: Path) -> None:
    names = (
        *(".git/config", ".env", "a/.hidden", "__pycache__/a.pyc", "a/b.pyc", "node_modules/x/y.js", "venv/bin/python"),
        *("redraft.toml", "bare.git/HEAD", "a.egg-info/PKG-INFO", "a.py~"),
    )
    for name in (*names, "a/kept.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "node_modules" / "link").symlink_to("/etc/passwd")
    assert [*read_folder(folder_text(tmp_path))] == ["a/kept.py"]


@pytest.mark.parametrize("target", ["/etc", "/etc/passwd", "nowhere", "real"])
def test_no_link_is_followed_on_the_way_in(tmp_path: Path, target: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.py").write_text("x = 1\n")
    (tmp_path / "real" / "link").symlink_to(target)
    with pytest.raises(ContentError, match=r"real/link: this is a symbolic link; put the file itself there"):
        folder_text(tmp_path / "real")
    (tmp_path / "named").symlink_to(tmp_path / "real")
    with pytest.raises(ContentError, match=r"named: this is a symbolic link; name the folder itself"):
        folder_text(tmp_path / "named")


def test_a_pipe_a_strange_name_and_nothing_at_all_are_refused_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match="no file in it"):
        folder_text(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ContentError, match="no plain file"):
        folder_text(tmp_path)
    (tmp_path / "pipe").unlink()
    (tmp_path / "a|b").write_text("x")
    with pytest.raises(ContentError, match="holds characters that no file name should"):
        folder_text(tmp_path)
    with pytest.raises(ContentError, match="No such file"):
        folder_text(tmp_path / "nowhere")


def test_no_more_is_read_than_the_limit(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(ContentError, match=r"more than 1,000 bytes"):
        folder_text(tmp_path, 1000)
    (tmp_path / "large").write_bytes(b"x" * 1000)
    assert folder_text(tmp_path, 1000) == print_folder({"large": "x" * 1000})


@pytest.mark.parametrize("path", ["../out", "/tmp/out", ".git/config", "a/../../out"])
def test_nothing_is_written_outside_or_into_git(tmp_path: Path, path: str) -> None:
    with pytest.raises(ContentError):
        check_out({"a": File(b"x"), path: File(b"x")}, tmp_path / "there")
    assert [*tmp_path.iterdir()] == []


def test_nothing_that_is_there_is_written_to_or_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "there" / "a").symlink_to(tmp_path / "kept")
    with pytest.raises(FileExistsError):
        check_out({"a": File(b"x")}, tmp_path / "there")
    assert (tmp_path / "kept").read_text() == "kept"
