"""The publishers `file`, confined to one folder, and `stdout`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Final, TextIO

import msgspec

from redraft.actors.roles import Actor, Context, publisher
from redraft.app.builtin.confined import write_confined
from redraft.app.builtin.options import nearest, read_options
from redraft.app.builtin.publish_content import ContentOptions, content_of
from redraft.app.builtin.release import RELEASE
from redraft.events.content import Brief, Draft, Receipt
from redraft.events.errors import PermanentError
from redraft.projections.plain import visible

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_SUFFIXES: Final[Mapping[str, str]] = {"text/markdown": ".md", "text/x-python": ".py", "text/html": ".html"}
_PLAIN: Final = re.compile(r"[^<>/\\]+")


class FileOptions(ContentOptions, frozen=True):
    """`path`: relative to the output folder; `{run}` and `{version}` stand for the run's id and the draft's number."""

    path: str = ""


class _NoOptions(msgspec.Struct, frozen=True):
    """`stdout` has none."""


def file_publisher(root: Path) -> Actor:
    """The actor `file`, which writes the draft to a file below `root`, whole or not at all; options: FileOptions.

    Without a path the file is named after the brief's source: `essay.redraft.md`. Publishing the same text again
    changes nothing and gives the same receipt. It raises PermanentError when the path is not one that it may write.
    """

    @publisher(name="file", version=RELEASE)
    def save(draft: Draft, brief: Brief, context: Context) -> Receipt:
        options = read_options(FileOptions, context.options, "file")
        path = (
            _filled(options.path, context.run, draft.version) if options.path else _default(brief, draft, context.run)
        )
        content = content_of(draft, context, whole=options.whole).encode()
        try:
            written = write_confined(root, path, content)
        except PermanentError as error:
            raise PermanentError(f"file: {error}") from None
        return Receipt(str(written), f"{len(content):,} bytes, version {draft.version}")

    return save


def stdout_publisher(stream: TextIO) -> Actor:
    """The actor `stdout`, which writes the draft's text to a stream, exactly, or made `visible` for a terminal.

    It has no options.
    It raises PermanentError when the stream is closed or cannot hold the text's characters; then nothing is written.
    """

    @publisher(name="stdout", version=RELEASE)
    def show(draft: Draft, context: Context) -> Receipt:
        read_options(_NoOptions, context.options, "stdout")
        try:
            draft.text.encode(stream.encoding or "utf-8", stream.errors or "strict")
            stream.write(visible(draft.text) if stream.isatty() else draft.text)
            stream.flush()
        except UnicodeEncodeError as error:
            character = draft.text[error.start]
            raise PermanentError(
                f"stdout: {stream.encoding} has no {character!r}; set PYTHONIOENCODING=utf-8"
            ) from None
        except (OSError, ValueError) as error:
            raise PermanentError(f"stdout: the text cannot be written: {error}; read it to its end") from None
        return Receipt("stdout", f"{len(draft.text):,} characters, version {draft.version}")

    return show


def _filled(path: str, run: str, version: int) -> str:
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
        return f"{run}.redraft{_SUFFIXES.get(draft.media_type, '.txt')}"
    source = PurePath(name)
    return f"{source.stem}.redraft{source.suffix}"
