"""Ids of events across a log: each once. They lie in a temporary file of SQLite's, so that memory stays bounded."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from types import TracebackType
from typing import Self

from redraft.projections.record_check.check import Checked
from redraft.projections.record_check.findings import Finding

_TABLE = "CREATE TABLE ids (id TEXT PRIMARY KEY, run TEXT NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID"


class Ids:
    """The ids that were met so far."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("PRAGMA synchronous = OFF")
        self._file.execute(_TABLE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def add(self, checked: Checked) -> list[Finding]:
        """Takes in the ids of a run; a finding for each that another run has."""
        findings: list[Finding] = []
        for key, version, position in {each[0]: each for each in reversed(checked.ids)}.values():
            with closing(self._file.execute("SELECT run, version FROM ids WHERE id = ?", (key,))) as found:
                other = found.fetchone()
            if other is None:
                self._file.execute("INSERT INTO ids VALUES (?, ?, ?)", (key, checked.run, version))
                continue
            also = f"event {other[1]} of run {other[0]}"
            told = f"event {version} of run {checked.run}: its id {key} is that of {also} too"
            findings.append(Finding("id-twice", told, checked.run, version, position))
        return findings
