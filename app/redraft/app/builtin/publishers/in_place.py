"""Publishing over the source of a run: what others wrote there since the run began is never replaced."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import msgspec

from redraft.events.errors import PermanentError

Published: TypeAlias = dict[Path, tuple[str, bytes]]
"""The run that last published to each source in this process, and the SHA-256 of what it wrote."""


class InPlace(msgspec.Struct, frozen=True):
    """A run whose source is published to. A second publication within it, as in a loop, replaces the first."""

    run: str
    published: Published

    def has_written(self, path: Path) -> bool:
        """Returns whether this run has published to the path."""
        return self.published.get(path, ("",))[0] == self.run

    def require(self, path: Path, name: str, *expected: bytes | None) -> None:
        """Raises PermanentError unless the file holds one of these (None: it is not there), or what the run wrote."""
        there = path.read_bytes() if path.exists() else None
        if there in expected or self.published.get(path) == (self.run, _digest(there)):
            return
        raise PermanentError(
            f"{name} was {'removed' if there is None else 'changed'} since the run began, and is left as it is; "
            f"redraft show {self.run} --text prints the draft"
        )

    def note(self, path: Path, content: bytes) -> None:
        """Remembers what the run has published."""
        self.published[path] = (self.run, _digest(content))


def _digest(content: bytes | None) -> bytes:
    return sha256(content or b"").digest()
