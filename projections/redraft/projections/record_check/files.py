"""Puts the contents of a draft's files back, where an event names one that an earlier event of its run has.

Written from the description of the log alone (docs/folders.md): it shares no code with the store.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from redraft.events.errors import CodecError
from redraft.events.messages.domain_events import DraftEdited, DraftGenerated, DraftRefined, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.folders import FOLDER

_NAMED: Final = re.compile(r"(?P<line>=== .*) \| sha256 (?P<digest>[0-9a-f]{64})")


class FilesOfRun:
    """The contents in the events of one run, which are taken in their order."""

    def __init__(self) -> None:
        self._contents: dict[str, str] = {}

    def take(self, event: Recorded) -> Recorded:
        """Returns the event with its whole draft or brief. Raises CodecError for a content that is nowhere before."""
        match event.data:
            case RunStarted(brief=brief) as data if brief.media_type == FOLDER:
                return replace(event, data=replace(data, brief=replace(brief, text=self._whole(brief.text))))
            case DraftGenerated(draft=draft) | DraftRefined(draft=draft) | DraftEdited(draft=draft) if (
                draft.media_type == FOLDER
            ):
                return replace(event, data=replace(event.data, draft=replace(draft, text=self._whole(draft.text))))
            case _:
                return event

    def _whole(self, text: str) -> str:
        files: list[tuple[str, list[str]]] = []
        for line in re.findall(r".*\n|.+", text):
            if line.startswith("=== "):
                files.append((line, []))
            elif files:
                files[-1][1].append(line)
            else:
                return text  # it was erased
        return "".join(self._file(head, "".join(lines)) for head, lines in files)

    def _file(self, head: str, content: str) -> str:
        named = _NAMED.fullmatch(head.rstrip("\n"))
        if named is None:
            self._contents[sha256(content.encode()).hexdigest()] = content
            return head + content
        if named["digest"] not in self._contents:
            raise CodecError(f"it names the content {named['digest']}, which no event before it has")
        return f"{named['line']}\n{self._contents[named['digest']]}"
