"""Critics and refiners of one text, for each file of a draft that has several."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from redraft.app.builtin.support.options import listed
from redraft.events.messages.content import Brief, Critique, Draft, Issue, Number, Revision
from redraft.events.messages.folders import FOLDER, File, file_spans, print_folder

T = TypeVar("T")

AT_ONCE: Final = 4
"""The number of files that are worked on at the same time."""


def texts_of(draft: Draft | Brief, *suffixes: str) -> dict[str, str]:
    """Returns the texts of the files with one of these suffixes, by path; of a draft that is one text, none."""
    found = {path: file.text for path, file in draft.files.items() if path.endswith(suffixes)}
    return {path: text for path, text in found.items() if text is not None}


def is_folder(draft: Draft) -> bool:
    """Returns whether a draft has several files."""
    return draft.media_type == FOLDER


async def for_each(texts: Mapping[str, str], work: Callable[[str, str], Awaitable[T]]) -> dict[str, T]:
    """Returns what `work` returns for each path and text, a few of them at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(path: str, text: str) -> T:
        async with room:
            return await work(path, text)

    async with asyncio.TaskGroup() as group:
        tasks = {path: group.create_task(one(path, text)) for path, text in texts.items()}
    return {path: task.result() for path, task in tasks.items()}


def merged(draft: Draft, said: Mapping[str, Critique], score: float) -> Critique:
    """Returns the critiques of a draft's files as one, with this score. Each line says its file; numbers are added."""
    errors, more = listed([f"{path}: {each}" for path, one in said.items() for each in one.errors])
    counted: dict[str, Number] = {}
    for one in said.values():
        for name, value in one.measures.items():
            counted[name] = counted.get(name, 0) + value
    texts = {name: _lines(said, name) for name in ("strengths", "weaknesses", "suggestions")}
    files, spans = draft.files, file_spans(draft.text)  # once, as each reads the whole draft
    issues: list[Issue] = []
    for path, one in said.items():
        text, start = files[path].text, spans[path][0]
        if text is not None and draft.text.startswith(text, start):  # else lines of it are written otherwise
            issues += _placed(path, start, one.issues)
    return Critique(
        score,
        texts["strengths"],
        (*texts["weaknesses"], *more),
        texts["suggestions"],
        errors,
        measures=counted,
        issues=tuple(issue for issue in issues if issue.severity != "error" or issue.text in errors),
    )


def _lines(said: Mapping[str, Critique], name: str) -> tuple[str, ...]:
    lines = [f"{path}: {each}" for path, one in said.items() for each in getattr(one, name)]
    kept, more = listed(lines)
    return (*kept, *more)


def _placed(path: str, start: int, issues: tuple[Issue, ...]) -> Iterator[Issue]:
    """Yields the issues of a file at their places in the draft's text, in which the file starts there."""
    for issue in issues:
        if issue.span is not None:
            place = issue.span[0] + start, issue.span[1] + start
            yield msgspec.structs.replace(issue, text=f"{path}: {issue.text}", span=place)


def changed_files(draft: Draft, made: Mapping[str, Revision]) -> Revision:
    """Returns the draft with these files as they were revised; each change says its file."""
    before = draft.files
    revised = {path: File(revision.text.encode(), before[path].executable) for path, revision in made.items()}
    kept, more = listed([f"{path}: {each}" for path, one in made.items() for each in one.changes])
    return Revision(print_folder({**before, **revised}), (*kept, *more))
