"""Reading briefs: what is text comes through unchanged, everything else is refused in one line."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from redraft.app.workflows.briefs import looks_like_path, media_type_of, read_brief, workflow_for
from redraft.events.errors import ContentError, InputError
from redraft.events.messages.content import Brief
from redraft.events.messages.folders import FOLDER

NOBODY = io.BytesIO()


def refused(source: str | Path, stdin: bytes = b"", **options: int) -> str:
    with pytest.raises(ContentError) as caught:
        read_brief(str(source), io.BytesIO(stdin), **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.md", "text/markdown"),
        ("a.MD", "text/markdown"),
        ("a.py", "text/x-python"),
        ("a.txt", "text/plain"),
        ("LICENSE", "text/plain"),
    ],
)
def test_a_file_gives_its_text_its_media_type_and_its_name(tmp_path: Path, name: str, media_type: str):
    path = tmp_path / name
    path.write_text("Tides rise.\n")
    assert read_brief(str(path), NOBODY) == Brief("Tides rise.\n", media_type, str(path))
    assert media_type_of(name) == media_type


def test_line_ends_are_kept_and_a_byte_order_mark_is_not(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r")
    assert read_brief(str(path), NOBODY).text == "one\r\ntwo\r"


def test_standard_input_and_plain_text():
    assert read_brief("-", io.BytesIO("Ebbe und Flut über".encode())) == Brief("Ebbe und Flut über")
    assert read_brief("Why tides exist", NOBODY) == Brief("Why tides exist")
    assert read_brief("essay.md", NOBODY, as_text=True) == Brief("essay.md")
    assert read_brief("-", NOBODY, as_text=True) == Brief("-")


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("essay.md", True),
        ("notes/essay", True),
        ("/nowhere", True),
        (".nothere", True),
        ("./a file", True),
        ("~/notes", True),
        ("...", False),
        ("... and so on", False),
        ("./a\nline", False),
        ("tides", False),
        ("Tides.", False),
        ("and/or this", False),
        ("essay.md please", False),
    ],
)
def test_what_looks_like_a_path(source: str, path: bool):
    assert looks_like_path(source) is path


def test_a_missing_file_is_not_taken_for_a_text(tmp_path: Path):
    message = refused(tmp_path / "missing.md")
    assert "there is no such file" in message
    assert "--text" in message


def test_a_folder_is_a_draft_of_several_files(tmp_path: Path):
    assert "there is no file in it that could be part of a draft" in refused(tmp_path)
    (tmp_path / "b.py").write_text("y = 2\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "c.txt").write_text("One.\n")
    brief = read_brief(str(tmp_path), io.BytesIO())
    assert (brief.text, brief.media_type) == ("=== a/c.txt\nOne.\n=== b.py\ny = 2\n", FOLDER)
    assert workflow_for(brief) == "code"
    (tmp_path / "b.py").unlink()
    assert workflow_for(read_brief(str(tmp_path), io.BytesIO())) == "prose"
    (tmp_path / "a" / "c.txt").rename(tmp_path / "a" / "c")
    with pytest.raises(InputError, match="neither Python nor text"):
        workflow_for(read_brief(str(tmp_path), io.BytesIO()))
    assert "more than 4 bytes" in refused(tmp_path, limit=4)
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert "link: this is a symbolic link" in refused(tmp_path)


@pytest.mark.parametrize("text", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
def test_an_empty_text(tmp_path: Path, text: bytes):
    path = tmp_path / "empty.md"
    path.write_bytes(text)
    assert f"{path}: the text is empty" in refused(path)
    assert "standard input: the text is empty" in refused("-", text)


def test_an_empty_word_is_an_empty_text():
    assert "the text is empty" in refused("")


def test_a_binary_file_is_named_with_its_first_nul(tmp_path: Path):
    path = tmp_path / "image.png"
    path.write_bytes(b"\x89PNG\x00\x00")
    assert "byte 4 is NUL, so this is a binary file" in refused(path)


@pytest.mark.parametrize(
    ("raw", "place"),
    [(b"abc\xff", "byte 3 (0xff"), (b"\xef\xbb\xbfab\xe9 ", "byte 5 (0xe9"), (b"\xc3", "byte 0 (0xc3")],
)
def test_what_is_not_utf_8_is_named_with_its_byte(tmp_path: Path, raw: bytes, place: str):
    path = tmp_path / "latin.txt"
    path.write_bytes(raw)
    message = refused(path)
    assert place in message
    assert "save the file as UTF-8" in message


def test_utf_16_is_named(tmp_path: Path):
    path = tmp_path / "wide.txt"
    path.write_bytes("tides".encode("utf-16"))
    assert "this is UTF-16, not UTF-8" in refused(path)


def test_ten_megabytes_are_refused_with_size_and_limit(tmp_path: Path):
    path = tmp_path / "big.md"
    path.write_bytes(b"x" * 10 * 1024 * 1024)
    message = refused(path)
    assert "10,485,760 bytes, more than the limit of 2,097,152 bytes" in message
    assert "shorten or split it" in message


def test_standard_input_is_not_read_beyond_the_limit():
    class Endless(io.RawIOBase):
        taken = 0

        def read(self, size: int = -1) -> bytes:
            assert 0 <= size <= 1_000
            self.taken += size
            return b"x" * size

    with pytest.raises(ContentError, match="standard input: larger than the limit of 100 bytes"):
        read_brief("-", Endless(), limit=100)  # type: ignore[arg-type]


def test_the_limit_itself_still_fits(tmp_path: Path):
    path = tmp_path / "just.txt"
    path.write_bytes(b"\xef\xbb\xbf" + b"x" * 100)
    assert len(read_brief(str(path), NOBODY, limit=100).text) == 100
    assert "the limit of 99 bytes" in refused(path, limit=99)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path):
    path = tmp_path / "secret.md"
    path.write_text("secret")
    path.chmod(0)
    assert "Permission denied; check the file and its permissions" in refused(path)


def test_a_text_longer_than_any_file_name_is_a_text():
    text = "tide " * 2_000
    assert read_brief(text, NOBODY).text == text


def test_a_text_from_a_terminal_with_broken_bytes_is_refused():
    assert "cannot be written as UTF-8" in refused("tides\udcff rise")


@pytest.mark.parametrize("source", ["none.md", "."])
def test_a_verb_without_the_option_text_does_not_advise_it(source: str):
    with pytest.raises(ContentError) as caught:
        read_brief(source, NOBODY, as_text=None)
    assert "--text" not in str(caught.value)
