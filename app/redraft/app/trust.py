"""What a folder's `redraft.toml` may set by itself, and which of these files a person has said to trust.

Who works in a folder need not have written what lies in it. A file that says where events go, who is listened to or
what code is run takes effect only once the person has trusted it: its path, with this very content.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from platformdirs import user_data_path

from redraft.app.files import write_whole
from redraft.events.errors import InputError

_ASKS: Final = frozenset({"bus", "module", "webhook_hosts", "users", "public_key", "signing_key"})
_SQLITE: Final = "sqlite:///"


def untrusted_in(settings: Mapping[str, object], folder: Path) -> tuple[str, ...]:
    """The names of those settings of a folder's file that take effect only when it is trusted.

    They are a bus, its users, a module, a store that is no SQLite file below the folder, where webhooks may send what,
    keys that sign and verify, and that nothing is encrypted.
    """
    return tuple(name for name, value in settings.items() if _is_to_ask(name, value, folder))


def is_trusted(path: Path, content: bytes) -> bool:
    """Whether a person trusts the file at this path with this content."""
    return _known().get(str(path.resolve())) == sha256(content).hexdigest()


def trust(path: Path, content: bytes) -> None:
    """Records that a person trusts the file with this content. Raises InputError when that cannot be recorded."""
    known = {**_known(), str(path.resolve()): sha256(content).hexdigest()}
    try:
        _book().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"folder {_book().parent} cannot be made: {error.strerror}; see to its permissions") from None
    write_whole(_book(), msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n", "what is trusted,", 0o600)


def _is_to_ask(name: str, value: object, folder: Path) -> bool:
    match name, value:
        case "store", str() if value.startswith(_SQLITE):
            return not (folder / value.removeprefix(_SQLITE)).resolve().is_relative_to(folder.resolve())
        case "store", _:
            return value != "memory:"
        case "bus", "local:":
            return False
        case "encrypt", _:
            return not value
        case _:
            return name in _ASKS


def _book() -> Path:
    return user_data_path("redraft") / "trusted.json"


def _known() -> dict[str, str]:
    try:
        return msgspec.json.decode(_book().read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}
