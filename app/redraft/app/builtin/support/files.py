"""Files that a plan names: read below the worker's folder alone, written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final

from redraft.events.errors import PermanentError


def own_file(name: str, what: str) -> Path:
    """The path of a file of this name; `what` says in a fault who wants it, such as `sql: option database`.

    Raises PermanentError when the name is absolute, leads up, or leads elsewhere through a symbolic link.
    """
    try:
        path = Path.cwd().joinpath(*split_path(name))
    except PermanentError as error:
        raise PermanentError(f"{what}: {error}") from None
    if path.resolve().is_relative_to(Path.cwd().resolve()):
        return path
    raise PermanentError(f"{what}: {name!r} leads out of the working folder; name a file inside it")


def read_own_file(name: str, what: str, largest: int) -> str:
    """The text of such a file of at most `largest` bytes. Raises PermanentError as well when it cannot be read."""
    path = own_file(name, what)
    try:
        with path.open("rb") as file:
            raw = file.read(largest + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise PermanentError(f"{what}: {name!r} cannot be read: {error.strerror}; correct the path") from None
    except UnicodeDecodeError as error:
        raise PermanentError(f"{what}: {name!r}: byte {error.start + 1} is not UTF-8; save it as UTF-8") from None
    if len(raw) > largest or not text.strip():
        fault = "is empty" if not text.strip() else f"has more than {largest:,} bytes"
        raise PermanentError(f"{what}: {name!r} {fault}; name another file")
    return text


_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def write_confined(root: Path, path: str, content: bytes, *, executable: bool | None = None) -> Path:
    """Makes `path`, which is relative to `root`, hold exactly `content`, and gives the file's whole path.

    Folders on the way are made. A file that is there keeps its mode; if it holds the content already it is left alone.
    Whether it may be executed is as `executable` says, unless that is None. Raises PermanentError, with nothing
    half-written, when the path leads out of the root, through a symbolic link, to something that is not a plain file,
    names something hidden, or when it cannot be written.
    """
    parts = check_path(path)
    with _explaining(root, path), _folder(root, parts[:-1]) as folder:
        _write(folder, parts[-1], content, executable)
    return root.joinpath(*parts)


@contextmanager
def _explaining(root: Path, path: str) -> Iterator[None]:
    """Raises PermanentError, with a remedy, in place of an OSError."""
    try:
        yield
    except OSError as error:
        raise PermanentError(
            f"{path!r} cannot be written in {root}: {error.strerror or error}; {_remedy(error)}"
        ) from None


def split_path(path: str) -> tuple[str, ...]:
    """The names a relative path is made of; raises PermanentError when it is none, or leads up or away."""
    parts = PurePosixPath(path).parts
    faults = {
        "is absolute": path.startswith("/"),
        "leads up": ".." in parts,
        "starts in a home folder": path.startswith("~"),
        "names a folder": not parts or path.endswith(("/", "/.")),
        "holds characters that no file name should": not path.isprintable() or "\\" in path,
    }
    for fault in (fault for fault, found in faults.items() if found):
        raise PermanentError(
            f"the path {path!r} {fault}; give the path of a file below the output folder, such as out/essay.md"
        )
    return parts


def check_path(path: str) -> tuple[str, ...]:
    """The names of a relative path that a publisher may write to; raises PermanentError for one that it may not."""
    parts = split_path(path)
    _refuse_hidden(path, parts)
    return parts


def _refuse_hidden(path: str, parts: tuple[str, ...]) -> None:
    """Programs do what such files say: `.git/config`, `.envrc`; git what `bare.git` holds; and Redraft its settings."""
    if parts[-1].casefold() == "redraft.toml":
        raise PermanentError(f"the path {path!r} names a file of Redraft's settings; name another file")
    for name in (name for name in parts if name.startswith(".") or name.casefold().startswith("git~")):
        raise PermanentError(f"the path {path!r} names {name!r}, which is hidden; name a file that is not")
    if any(name.casefold().endswith(".git") for name in parts):
        raise PermanentError(f"the path {path!r} leads into a repository's own folder; name another file")


@contextmanager
def _folder(root: Path, names: tuple[str, ...]) -> Iterator[int]:
    with ExitStack() as opened:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        opened.callback(os.close, folder)
        for name in names:
            _refuse_repository(folder, name)
            _make(folder, name)
            folder = _enter(folder, name)
            opened.callback(os.close, folder)
        yield folder


def _refuse_repository(folder: int, name: str) -> None:
    """Raises PermanentError where git takes the folder, with this name in it, for a repository to heed."""
    there = {name.casefold(), *(each for each in ("head", "objects", "refs", "commondir") if _is_there(folder, each))}
    if "head" in there and ("commondir" in there or {"objects", "refs"} <= there):
        raise PermanentError(f"with {name!r} the folder would be a Git repository, or is one; name another folder")


def _is_there(folder: int, name: str) -> bool:
    """Returns whether a folder has this name; HEAD is written so, where capitals count."""
    with suppress(FileNotFoundError):
        os.stat("HEAD" if name == "head" else name, dir_fd=folder, follow_symlinks=False)
        return True
    return False


def _make(folder: int, name: str) -> None:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return
    _sync(folder)


def _enter(folder: int, name: str) -> int:
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise PermanentError(f"{name!r} on the way to the file is a symbolic link; name the folder itself")
    return os.open(name, _FOLDER, dir_fd=folder)


def check_confined(root: Path, path: str) -> None:
    """Raises PermanentError as `write_confined` would, as far as can be told without making anything."""
    parts = check_path(path)
    with _explaining(root, path), ExitStack() as opened, suppress(FileNotFoundError):
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        opened.callback(os.close, folder)
        for name in parts[:-1]:
            _refuse_repository(folder, name)
            folder = _enter(folder, name)
            opened.callback(os.close, folder)
        _mode(folder, parts[-1])


def _write(folder: int, name: str, content: bytes, executable: bool | None) -> None:
    _refuse_repository(folder, name)
    there = _mode(folder, name)
    mode = there
    if there is not None and executable is not None:
        mode = there | (there & 0o444) >> 2 if executable else there & ~0o111
    if mode is not None and mode == there and _holds(folder, name, content):
        return
    new = 0o777 if executable else 0o666
    temporary = f".redraft-{secrets.token_hex(8)}.tmp"
    handle = os.open(temporary, _NEW, new, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    _sync(folder)


def _sync(folder: int) -> None:
    """Makes a change of names durable, where the file system can be asked to."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _mode(folder: int, name: str) -> int | None:
    """The permissions of a plain file that is there; None when nothing is."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        kind = "a folder" if stat.S_ISDIR(found) else "a symbolic link" if stat.S_ISLNK(found) else "no plain file"
        raise PermanentError(f"{name!r} is {kind}; give the path of a plain file, or of one that is not there yet")
    if not found & 0o222 or not os.access(name, os.W_OK, dir_fd=folder):
        raise PermanentError(f"{name!r} is read-only; make it writable, or name another path")
    return stat.S_IMODE(found) & 0o777


def _holds(folder: int, name: str, content: bytes) -> bool:
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return False
    with os.fdopen(handle, "rb") as file:
        return os.fstat(file.fileno()).st_size == len(content) and file.read(len(content) + 1) == content


def _remedy(error: OSError) -> str:
    match error:
        case FileNotFoundError():
            return "make the output folder first"
        case NotADirectoryError():
            return "there is a file where a folder is needed; name another path"
        case PermissionError():
            return "allow the worker to write there, or name another path"
        case _:
            return "free some space, or name another path"
