"""Drafts of several files for the runs of a history: contents recur, change and move between paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import Final

from msgspec.structs import replace

from redraft.actors import Revision
from redraft.events.errors import CodecError
from redraft.events.messages.content import Brief
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.folders import FOLDER, print_folder
from redraft.projections.record_check.files import FilesOfRun

PATHS: Final = ("a.txt", "b/c.py", "b/d.py", "e.bin", "f")
CONTENTS: Final = tuple(f"{number} says the same at length. " * (6 - number) + "\n" for number in range(5))
"""Contents that many drafts share; the shortest are written out, as a reference to one would be longer."""


def brief_of_files(random: Random, brief: Brief | str) -> Brief:
    """Returns the brief as one of several files."""
    known = Brief(brief) if isinstance(brief, str) else brief
    return replace(known, text=files_of(random, known.text), media_type=FOLDER)


def files_of(random: Random, text: str) -> str:
    """Returns a draft of several files, one of which is this text."""
    files: dict[str, str | bytes] = {path: random.choice(CONTENTS) for path in PATHS if random.random() < 0.7}
    if random.random() < 0.3:
        files["e.bin"] = bytes(range(random.choice((10, 250))))
    return print_folder(files | {"draft.txt": text})


def said_of_files(random: Random, said: object) -> object:
    """Returns what a generator or refiner said, with its text as a draft of several files."""
    match said:
        case str():
            return files_of(random, said)
        case Revision(text=text) if text:
            return replace(said, text=files_of(random, text))
        case _:
            return said


def with_files(stored: Iterable[Recorded], wrong: list[str]) -> list[Recorded]:
    """Returns events of several runs, as they are stored, with all contents of their files.

    A sentence is added to `wrong` for each that names a content which its run does not have; it stays as it is.
    """
    files: defaultdict[str, FilesOfRun] = defaultdict(FilesOfRun)
    found: list[Recorded] = []
    for event in stored:
        try:
            found.append(files[event.run].take(event))
        except CodecError as error:
            wrong.append(f"files: event {event.version} of run {event.run}: {error}")
            found.append(event)
    return found
