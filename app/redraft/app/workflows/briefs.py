"""Reading briefs: a file, standard input, or the text itself. What is no text is refused in one line."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import BinaryIO, Final

from redraft.actors.checkout import folder_text
from redraft.events.errors import ContentError, InputError
from redraft.events.messages.content import MAX_DRAFT_BYTES, Brief, checked
from redraft.events.messages.folders import FOLDER

STDIN: Final = "-"
"""The source that means standard input."""

_BOM: Final = b"\xef\xbb\xbf"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_PROSE: Final = (".md", ".markdown", ".rst", ".txt")
_BEGINNINGS: Final = ("./", "../", "~/")
_PROSE_TYPES: Final = ("text/plain", "text/markdown", "text/x-rst")
_MEDIA_TYPES: Final = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".py": "text/x-python",
    ".pyi": "text/x-python",
}


def read_brief(source: str, stdin: BinaryIO, *, as_text: bool | None = False, limit: int = MAX_DRAFT_BYTES) -> Brief:
    """The brief that a source names: a file or folder that exists, `-` for `stdin`, otherwise the text that it is.

    `as_text` takes it as text whatever it looks like; None: errors do not advise to give `--text`, which the caller
    does not have. `limit` is the largest size, in bytes of UTF-8. Raises
    ContentError, naming what, where, and how to mend it, for all that is empty, too large, unreadable or not UTF-8
    text, and for what `looks_like_path` of a file when there is no such file.
    """
    if as_text or not source:
        return _of_text(source, limit)
    if source == STDIN:
        return Brief(_decode(_read_limited(stdin, "standard input", limit), "standard input", limit))
    path = Path(source)
    if _exists(path):
        if path.is_dir():
            return _of_folder(path, source, limit)
        return Brief(_decode(_read(path, limit), source, limit), media_type_of(source), source)
    if looks_like_path(source):
        otherwise = "" if as_text is None else ", or give --text when this is the text itself"
        raise ContentError(f"{source}: there is no such file; correct the path{otherwise}")
    return _of_text(source, limit)


def check_tested(brief: Brief, tests: Sequence[str]) -> None:
    """Raises InputError where tests are named and the brief is no file or folder that they could import."""
    if tests and not _is_python(brief):
        raise InputError("--tests need a module that they import; name a .py file as the source, or a folder")


def _is_python(brief: Brief) -> bool:
    names = brief.files or [brief.source]
    return any(PurePath(name).suffix.lower() == ".py" for name in names)


def check_pytest() -> None:
    """Raises InputError where pytest, which runs tests on this machine, is not installed."""
    if find_spec("pytest") is None:
        raise InputError("--tests need pytest, which is not installed; install it: pip install pytest")


def workflow_for(brief: Brief) -> str:
    """The shipped workflow that a brief gets when nobody names one: `code` for Python, `prose` for text.

    Raises InputError for a file that is neither by its name: what mends text would break a script or a table.
    """
    suffix = PurePath(brief.source).suffix.lower()
    if _is_python(brief):
        return "code"
    if brief.media_type == FOLDER:
        if any(path.lower().endswith(_PROSE) for path in brief.files):
            return "prose"
        raise InputError(f"{brief.source}: there is neither Python nor text in this folder; name a workflow of yours")
    if not brief.source or suffix in _PROSE:
        return "prose"
    raise InputError(
        f"{brief.source}: by its name this is neither text ({', '.join(_PROSE)}) nor Python (.py); "
        "say what to do with it: --workflow prose, --workflow code, or a workflow of yours"
    )


def require_prose(brief: Brief, where: str) -> None:
    """Raises InputError, naming where it was given, for a brief that the workflow `prose` is not for."""
    try:
        named = workflow_for(brief)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    kind = brief.media_type.partition(";")[0].strip().lower()
    if named == "prose" and kind in _PROSE_TYPES:
        return
    what, remedy = (
        (f"source {brief.source}", "--workflow code")
        if named == "code"
        else (f"media type {brief.media_type!r}", "--workflow prose, --workflow code, or a workflow of yours")
    )
    raise InputError(f"{where}: {what}: this is no prose; say what to do with the batch: {remedy}")


def looks_like_path(source: str) -> bool:
    """Returns whether a source is meant as a file: it has a suffix, a slash or a dot before it, and no blank.

    With blanks too if it begins with `./`, `../` or `~/` and is one line.
    """
    if source.startswith(_BEGINNINGS) and len(source.splitlines()) == 1:
        return True
    hidden = source.startswith(".") and source[1:2].isalnum()
    return not any(map(str.isspace, source)) and ("/" in source or hidden or bool(PurePath(source).suffix))


def media_type_of(source: str) -> str:
    """The media type that a file's suffix stands for: Markdown, Python, otherwise plain text."""
    return _MEDIA_TYPES.get(PurePath(source).suffix.lower(), "text/plain")


def _of_folder(path: Path, source: str, limit: int) -> Brief:
    text = folder_text(path, limit)
    checked(text, source, limit)
    return Brief(text, FOLDER, source)


def _of_text(text: str, limit: int) -> Brief:
    checked(text, "the text", limit)
    return Brief(text)


def _exists(path: Path) -> bool:
    """Returns whether something exists at this path; False for a text that cannot be a path."""
    try:
        path.stat()
    except PermissionError as error:
        raise ContentError(f"{path}: {error.strerror}; check the permissions of its folder") from None
    except (OSError, ValueError):
        return False
    return True


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            return _read_limited(file, str(path), limit, path.stat().st_size)
    except OSError as error:
        raise ContentError(f"{path}: {error.strerror}; check the file and its permissions") from None


def _read_limited(file: BinaryIO, name: str, limit: int, size: int = 0) -> bytes:
    """The bytes of a file, without a byte order mark; raises ContentError before more than the limit is read."""
    maximum = limit + len(_BOM)
    raw = b"" if size > maximum else file.read(maximum + 1)
    text = raw.removeprefix(_BOM)
    if size > maximum or len(text) > limit:
        size_text = f"{size:,} bytes, more than" if size > maximum else "larger than"
        remedy = "shorten or split it, or raise REDRAFT_MAX_DRAFT_BYTES"
        raise ContentError(f"{name}: {size_text} the limit of {limit:,} bytes; {remedy}")
    return raw


def _decode(raw: bytes, name: str, limit: int) -> str:
    text = raw.removeprefix(_BOM)
    if raw.startswith(_UTF_16):
        raise ContentError(f"{name}: this is UTF-16, not UTF-8; save it as UTF-8")
    if b"\0" in text:
        at = raw.index(b"\0")
        raise ContentError(f"{name}: byte {at:,} is NUL, so this is a binary file; give a text file in UTF-8")
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        at = error.start + len(raw) - len(text)
        raise ContentError(
            f"{name}: byte {at:,} (0x{raw[at]:02x}, counted from 0) is not UTF-8; save the file as UTF-8"
        ) from None
    checked(decoded, name, limit)
    return decoded
