"""What a program is given to work in: a folder that is removed afterwards, and a clean environment."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from redraft.events.errors import PermanentError, StepError

_Folder: TypeAlias = "tempfile.TemporaryDirectory[str]"


@asynccontextmanager
async def workspace() -> AsyncIterator[Path]:
    """A new empty folder for one program; removed with all that is in it, whatever happened.

    Raises StepError when it cannot be made.
    """
    making = asyncio.ensure_future(asyncio.to_thread(_make))
    try:
        folder = await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(_remove_unused)
        raise
    try:
        yield Path(folder.name)
    finally:
        await asyncio.to_thread(folder.cleanup)


def environment(home: Path, passed: Sequence[str], outer: Mapping[str, str], actor: str) -> dict[str, str]:
    """PATH, HOME, TMPDIR and LANG, and the variables of `outer` that are `passed` by name.

    Programs that are installed beside Redraft's Python are found after all others. Raises PermanentError when a name
    that is to be passed is not set; the message never holds a value.
    """
    missing = [name for name in passed if name not in outer]
    if missing:
        raise PermanentError(
            f"{actor}: option env_pass names {', '.join(missing)}, not set here; set it where the worker runs"
        )
    path = os.pathsep.join((outer.get("PATH", os.defpath), str(Path(sys.executable).parent)))
    clean = {"PATH": path, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}
    return clean | {name: outer[name] for name in passed}


def _make() -> _Folder:
    try:
        return tempfile.TemporaryDirectory(
            prefix="redraft-", dir=Path(tempfile.gettempdir()).resolve(), ignore_cleanup_errors=True
        )
    except OSError as error:
        raise StepError(f"no temporary folder can be made: {error.strerror}; free some space or set TMPDIR") from None


def _remove_unused(making: asyncio.Future[_Folder]) -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().cleanup()
