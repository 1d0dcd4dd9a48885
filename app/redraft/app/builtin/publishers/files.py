"""The publishers `file`, confined to one folder, and `stdout`."""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Final, TextIO

import msgspec

from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.roles import publisher
from redraft.app.builtin.publishers.in_place import InPlace, Published
from redraft.app.builtin.support.files import check_confined, write_confined
from redraft.app.builtin.support.options import RELEASE, nearest, read_options
from redraft.events.errors import PermanentError
from redraft.events.messages.content import Brief, Draft, Receipt
from redraft.events.messages.folders import FOLDER, File
from redraft.projections.display import counted, visible


class ContentOptions(msgspec.Struct, frozen=True):
    """`whole`: publish all finished drafts of the loops, such as the chapters of a book, a blank line between them."""

    whole: bool = False


def content_of(draft: Draft, context: Context, *, whole: bool) -> str:
    """The text to publish. Raises PermanentError when the `whole` is wanted and there is none, or it is no text."""
    if any(each.media_type == FOLDER for each in (draft, *(context.outputs if whole else ()))):
        raise PermanentError("the draft has several files; publish it with file or git, without the option whole")
    if not whole:
        return draft.text
    if not context.outputs:
        raise PermanentError("option whole: no loop has finished a draft; remove the option")
    return "\n\n".join(each.text.strip("\n") for each in context.outputs) + "\n"


def publication_key(draft: Draft, context: Context, text: str) -> str:
    """The idempotency key of a publication: of the run, the draft and what is published, the same at every attempt."""
    return sha256("\n".join((context.run, draft.sha256, sha256(text.encode()).hexdigest())).encode()).hexdigest()


def save_file(actor: str, root: Path, path: str, content: bytes, version: int) -> Receipt:
    """Writes a draft of this version below `root` for an actor, as `write_confined` does, and returns the receipt."""
    with naming(actor):
        written = write_confined(root, path, content)
    return Receipt(str(written), f"{len(content):,} bytes, version {version}")


def save_files(
    actor: str, root: Path, path: str, draft: Draft, brief: Brief, in_place: InPlace | None = None
) -> Receipt:
    """Writes the files of a draft below `root`, in the folder `path`, each whole or not at all; returns the receipt.

    Nothing is written if one of them may not be. What the brief had and the draft has no more is left where it is, and
    the receipt says so. With `in_place` the folder is that of the brief: files that the run left as they were are not
    written, and the others have to be as the run found or wrote them. Raises PermanentError.
    """
    base = "" if path in ("", ".") else f"{path.rstrip('/')}/"
    files, before = ({f"{base}{name}": file for name, file in each.files.items()} for each in (draft, brief))
    if in_place:
        files = {
            name: file for name, file in files.items() if before.get(name) != file or in_place.has_written(root / name)
        }
    check_files(actor, root, files)
    if in_place:
        with naming(actor):
            for name, file in files.items():
                found = before[name].content if name in before else None
                in_place.require(root / name, name, found, file.content)
    write_files(actor, root, files)
    if in_place:
        for name, file in files.items():
            in_place.note(root / name, file.content)
    gone = sorted(name for name in brief.files.keys() - draft.files.keys() if os.path.lexists(root / f"{base}{name}"))
    left = f"; left there, though it is no part of it: {', '.join(gone[:10])}" if gone else ""
    note = f"{counted(len(files), 'file')}, {sum(len(each.content) for each in files.values()):,} bytes"
    return Receipt(str(root / base), f"{note}, version {draft.version}{left}")


def check_files(actor: str, root: Path, paths: Iterable[str]) -> None:
    """Raises PermanentError for an actor where a file at one of these paths below `root` could not be written."""
    with naming(actor):
        for path in paths:
            check_confined(root, path)


def write_files(actor: str, root: Path, files: Mapping[str, File]) -> None:
    """Writes files below `root` for an actor, by path, with their modes. Raises PermanentError."""
    with naming(actor):
        for path, file in files.items():
            write_confined(root, path, file.content, executable=file.executable)


@contextmanager
def naming(actor: str) -> Iterator[None]:
    """Puts the actor's name before a PermanentError."""
    try:
        yield
    except PermanentError as error:
        raise PermanentError(f"{actor}: {error}") from None


_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_SUFFIXES: Final[Mapping[str, str]] = {"text/markdown": ".md", "text/x-python": ".py", "text/html": ".html"}
_PLAIN: Final = re.compile(r"[^<>/\\]+")


class FileOptions(ContentOptions, frozen=True):
    """`path`: relative to the output folder; `{run}` and `{version}` stand for the run's id and the draft's number.

    `in_place`: the path is where the brief came from, and nothing is replaced there that was changed since.
    """

    path: str = ""
    in_place: bool = False


class _NoOptions(msgspec.Struct, frozen=True):
    """`stdout` has none."""


def file_publisher(root: Path, published: Published | None = None) -> Actor:
    """The actor `file`, which writes the draft to a file below `root`, whole or not at all; options: FileOptions.

    A draft of several files goes into a folder, see `save_files`. Without a path the file or folder is named after the
    brief's source: `essay.redraft.md`, `src.redraft`. Publishing the same text again changes nothing and gives the same
    receipt. It raises PermanentError when the path is not one that it may write. `published` is for the option
    `in_place`.
    """
    known: Published = {} if published is None else published

    @publisher(name="file", version=RELEASE)
    def save(draft: Draft, brief: Brief, context: Context) -> Receipt:
        options = read_options(FileOptions, context.options, "file")
        path = (
            _fill_path(options.path, context.run, draft.version)
            if options.path
            else _default(brief, draft, context.run)
        )
        in_place = InPlace(context.run, known) if options.in_place else None
        if draft.media_type == FOLDER and not options.whole:
            return save_files("file", root, path, draft, brief, in_place)
        content = content_of(draft, context, whole=options.whole).encode()
        if in_place is None:
            return save_file("file", root, path, content, draft.version)
        check_files("file", root, [path])
        with naming("file"):
            found = brief.text.encode()
            in_place.require(root / path, path, found, BOM_UTF8 + found, content)
        receipt = save_file("file", root, path, content, draft.version)
        in_place.note(root / path, content)
        return receipt

    return save


def stdout_publisher(stream: TextIO, before: Callable[[], None] = lambda: None) -> Actor:
    """Returns the actor `stdout`, which writes the draft's text to the stream; it has no options.

    A terminal gets the text made `visible`, with a line end. `before` is called each time, before anything is written.
    The actor raises PermanentError, having written nothing, when the stream is closed or lacks a character of the text.
    """

    @publisher(name="stdout", version=RELEASE)
    def show(draft: Draft, context: Context) -> Receipt:
        before()
        read_options(_NoOptions, context.options, "stdout")
        try:
            draft.text.encode(stream.encoding or "utf-8", stream.errors or "strict")
            stream.write(_for_terminal(draft.text) if stream.isatty() else draft.text)
            stream.flush()
        except UnicodeEncodeError as error:
            character = draft.text[error.start]
            raise PermanentError(
                f"stdout: {stream.encoding} has no {character!r}; set PYTHONIOENCODING=utf-8"
            ) from None
        except (OSError, ValueError) as error:
            gone = isinstance(error, BrokenPipeError)
            remedy = "the program that reads the output must read all of it" if gone else "send it to another place"
            fault = error.strerror if isinstance(error, OSError) else error
            raise PermanentError(f"stdout: the text cannot be written: {fault}; {remedy}") from None
        return Receipt("stdout", f"{len(draft.text):,} characters, version {draft.version}")

    return show


def _for_terminal(text: str) -> str:
    """The text made `visible`, with a line end: what is printed after it begins on a line of its own."""
    return visible(text) if text.endswith("\n") else f"{visible(text)}\n"


def _fill_path(path: str, run: str, version: int) -> str:
    values = {"run": run, "version": str(version)}

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise PermanentError(f"file: option path holds {found[0]}; {nearest(found[1], tuple(values))}")
        return values[found[1]]

    return _PLACEHOLDER.sub(value, path)


def _default(brief: Brief, draft: Draft, run: str) -> str:
    """`essay.redraft.md` for `notes/essay.md`; the run's id for a text that came from no file."""
    name = PurePath(brief.source).name.lstrip(".")
    if not _PLAIN.fullmatch(name) or not name.isprintable() or name == "-":
        return f"{run}.redraft{'' if draft.media_type == FOLDER else _SUFFIXES.get(draft.media_type, '.txt')}"
    source = PurePath(name)
    return f"{source.stem}.redraft{source.suffix}"
