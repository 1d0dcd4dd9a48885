"""Drafts of several files: a folder as one text, in which the content of each file follows a line with its path.

    === src/rates.py
    RATE = 0.2
    === tests/data.bin | base64
    AAEC

The files stand in the order of their paths. A line of a file that would look like such a line has a backslash before
it. So a folder is read, judged, quoted, compared, encrypted and erased as any other draft is.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import pairwise
from typing import Final

import msgspec

from redraft.events.errors import ContentError

FOLDER: Final = "application/vnd.redraft.folder"
"""The media type of a draft of several files."""

MOST_FILES: Final = 2_000
"""The largest number of files of a draft."""

LONGEST_PATH: Final = 1_000
"""The largest number of characters of a path."""

_LONGEST_NAME: Final = 255
"""The largest number of bytes of a file's or folder's name."""

_HEAD: Final = re.compile(r"=== (?P<path>[^|\n]+?)(?P<flags>(?: \| [a-z0-9 ]+)*)\n")
_MARKED: Final = re.compile(r"^(\\*=== )", re.MULTILINE)
_ESCAPED: Final = re.compile(r"^\\(\\*=== )", re.MULTILINE)
_START: Final = re.compile(r"^=== ", re.MULTILINE)
_BASE64: Final = "base64"
_EXECUTABLE: Final = "executable"
_UNENDED: Final = "no newline at end"
_LINE: Final = 57
"""The number of bytes of a line of base64, which has 76 characters then."""


class File(msgspec.Struct, frozen=True):
    """A file of a draft: its bytes, and whether it may be executed."""

    content: bytes
    executable: bool = False

    @property
    def text(self) -> str | None:
        """The content as text; None if it is not UTF-8, or has a NUL."""
        return _text_of(self.content)


def print_folder(files: Mapping[str, File | str | bytes]) -> str:
    """Returns the text of a draft of these files, by path. Raises ContentError for what cannot be a draft's files.

    Paths are relative, with `/` between names; see `check_paths`.
    """
    check_paths(files)
    return "".join(_print_file(path, _file_of(files[path])) for path in sorted(files))


def read_folder(text: str) -> dict[str, File]:
    """Returns the files of a draft's text, by path. Raises ContentError, saying where, if it is no folder's text.

    The last line end may be missing, and the files may stand in any order: models leave out the one, and mix the other.
    """
    if not text.startswith("=== "):
        raise ContentError("a draft of several files begins with a line such as `=== src/name.py`; begin it so")
    files: dict[str, File] = {}
    for section in sections(text if text.endswith("\n") else f"{text}\n"):
        path, file = _read_file(section)
        if path in files:
            raise ContentError(f"the file {path} is there twice; give each once")
        files[path] = file
    check_paths(files)
    return files


def normal_folder(text: str) -> str:
    """Returns the text with the files in their order, as `check_folder` wants it. Raises ContentError."""
    return print_folder(read_folder(text))


def check_folder(text: str) -> None:
    """Raises ContentError for a text that is not exactly what `print_folder` returns for the files in it."""
    if normal_folder(text) != text:
        raise ContentError("the files of the draft are not in their order and form; print them with print_folder")


def sections(text: str) -> Iterator[str]:
    """Yields the parts of a folder's text, one for each file: the line with its path, and its content."""
    starts = [found.start() for found in _START.finditer(text)]
    for start, end in pairwise((*starts, len(text))):
        yield text[start:end]


def file_spans(text: str) -> dict[str, tuple[int, int]]:
    """Returns where the content of each file stands in a folder's text, by path."""
    starts = [found.start() for found in _START.finditer(text)]
    heads = ((_HEAD.match(text, start), end) for start, end in pairwise((*starts, len(text))))
    return {head["path"]: (head.end(), end) for head, end in heads if head is not None}


def check_paths(paths: Iterable[str]) -> None:
    """Raises ContentError unless these can be the paths of a draft's files.

    None is absolute, leads up, is hidden or has to do with Git: programs do what such files say (`.git/config`,
    `.envrc`), and publishers would not write them. No two differ only in capitals, since some disks cannot hold both.
    """
    known = list(paths)
    if not 1 <= len(known) <= MOST_FILES:
        raise ContentError(f"{len(known):,} files; a draft of several files has from 1 to {MOST_FILES:,}")
    folders: dict[str, set[str]] = {}
    seen: dict[str, str] = {}
    for path in known:
        if fault := path_fault(path):
            raise ContentError(f"the path {path[:200]!r} {fault}")
        parts = path.split("/")
        for each in ("/".join(parts[:count]) for count in range(1, len(parts) + 1)):
            folded = unicodedata.normalize("NFC", each).casefold()
            if seen.setdefault(folded, each) != each:
                raise ContentError(f"the paths {each!r} and {seen[folded]!r} are one on some disks; rename one")
            above, _, name = folded.rpartition("/")
            folders.setdefault(above, set()).add(name)
    for path in known:
        if unicodedata.normalize("NFC", path).casefold() in folders:
            raise ContentError(f"the path {path!r} is that of a file and of a folder; rename one")
    for folder, names in folders.items():
        if "head" in names and ("commondir" in names or {"objects", "refs"} <= names):
            raise ContentError(f"the folder {folder or '.'!r} would be a Git repository; rename one of its files")


def path_fault(path: str) -> str:
    """Returns what is wrong with the path of a draft's file, and the remedy; nothing if it can be one."""
    names = path.split("/")
    faults = {
        "is empty or has an empty name in it; give names with single slashes between": "" in names,
        "leads elsewhere; give a path below the folder, without . and ..": "." in names or ".." in names,
        f"is longer than {LONGEST_PATH} characters; shorten it": len(path) > LONGEST_PATH,
        "holds characters that no file name should; rename the file": not path.isprintable()
        or bool({*"|\\"} & {*path}),
        "names what is hidden; leave it out": any(map(_is_hidden, names)),
        "begins in a home folder; rename the file": path.startswith("~"),
        "has to do with Git; rename the file": any(map(_is_of_git, names)),
        "has a name with a blank or a dot at its end; rename the file": any(
            name != name.strip(" ").rstrip(".") for name in names
        ),
        f"has a name of more than {_LONGEST_NAME} bytes; shorten it": any(
            len(name.encode(errors="replace")) > _LONGEST_NAME for name in names
        ),
    }
    return next((fault for fault, found in faults.items() if found), "")


_SETTINGS: Final = frozenset({"redraft.toml"})
"""Files that say what Redraft does, which no draft may change."""


def begins_file(text: str) -> bool:
    """Returns whether a line of this text would begin a file where it stands in a folder's text."""
    return _START.search(text) is not None


REFERENCE: Final = re.compile(r"^(=== [^\n]*) \| sha256 ([0-9a-f]{64})\n", re.MULTILINE)
"""The line of a file whose content stands elsewhere: in an earlier text of its run, or before it in its own."""

_SHORTEST: Final = 80
"""A content of fewer characters is not referred to: the reference would be as long."""


def shorten(text: str, known: Container[str]) -> tuple[str, list[str]]:
    """Returns a folder's text without the contents that are known by their SHA-256, and those of the ones left in it.

    In place of a content the line with the file's path names it. A text that is no folder's stays as it is.
    """
    if not text.startswith("=== "):
        return text, []
    parts: list[str] = []
    found: dict[str, None] = {}
    for section in sections(text):
        head, _, body = section.partition("\n")
        own = sha256(body.encode()).hexdigest() if len(body) >= _SHORTEST else ""
        if own and (own in known or own in found):
            parts.append(f"{head} | sha256 {own}\n")
            continue
        parts.append(section)
        if own:
            found[own] = None
    return "".join(parts), list(found)


def contents_in(text: str) -> dict[str, str]:
    """Returns the contents that stand in a text which `shorten` returned, by SHA-256."""
    bodies = (section.partition("\n")[2] for section in sections(text))
    return {sha256(body.encode()).hexdigest(): body for body in bodies if len(body) >= _SHORTEST}


def restore(text: str, contents: Mapping[str, str]) -> str:
    """Returns the text that was shortened. Raises KeyError, with its SHA-256, for a content that is not given."""
    return REFERENCE.sub(lambda found: f"{found[1]}\n{contents[found[2]]}", text)


def _is_of_git(name: str) -> bool:
    folded = name.casefold()
    return folded.endswith(".git") or folded.startswith("git~")


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.casefold() in _SETTINGS


def _file_of(given: File | str | bytes) -> File:
    if isinstance(given, File):
        return given
    try:
        return File(given.encode() if isinstance(given, str) else given)
    except UnicodeEncodeError as error:
        raise ContentError(f"character {error.start + 1} of a file cannot be written as UTF-8; remove it") from None


def _text_of(content: bytes) -> str | None:
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _print_file(path: str, file: File) -> str:
    text = _text_of(file.content)
    flags = [_BASE64] if text is None else []
    flags += [_EXECUTABLE] if file.executable else []
    if text is None:
        lines = (file.content[at : at + _LINE] for at in range(0, len(file.content), _LINE))
        body = "".join(f"{base64.b64encode(line).decode()}\n" for line in lines)
    else:
        unended = bool(text) and not text.endswith("\n")
        flags += [_UNENDED] if unended else []
        body = _MARKED.sub(r"\\\1", text) + ("\n" if unended else "")
    return f"=== {' | '.join((path, *flags))}\n{body}"


def _read_head(section: str) -> re.Match[str]:
    found = _HEAD.match(section)
    if found is None:
        line = section.partition("\n")[0]
        raise ContentError(f"the line {line[:200]!r} names no file; write such as `=== src/name.py`")
    return found


def _read_file(section: str) -> tuple[str, File]:
    found = _read_head(section)
    path, body = found["path"], section[found.end() :]
    flags = found["flags"].split(" | ")[1:]
    if not {*flags} <= {_BASE64, _EXECUTABLE, _UNENDED} or len({*flags}) < len(flags):
        raise ContentError(
            f"the file {path} is said to be {', '.join(flags)}; known are {_BASE64}, {_EXECUTABLE}, {_UNENDED}"
        )
    if _BASE64 in flags:
        try:
            content = base64.b64decode("".join(body.split()), validate=True)
        except (binascii.Error, ValueError):
            raise ContentError(f"the content of the file {path} is no base64; correct it") from None
        return path, File(content, _EXECUTABLE in flags)
    text = _ESCAPED.sub(r"\1", body)
    return path, File((text.removesuffix("\n") if _UNENDED in flags else text).encode(), _EXECUTABLE in flags)
