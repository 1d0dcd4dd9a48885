"""The store of the settings, with the key that its texts are sealed with."""

from __future__ import annotations

from redraft.app.settings import Settings
from redraft.events.errors import InputError
from redraft.events.keyring import Encryption
from redraft.events.store import EventStore, open_store


def store_of(settings: Settings) -> EventStore:
    """The store of the settings, opened. Raises InputError for a key that is no use, and what `open_store` does."""
    return open_store(settings.store, encryption=encryption_of(settings))


def encryption_of(settings: Settings) -> Encryption | None:
    """The encryption that the settings speak of. Raises InputError for a key that is missing or cannot be used."""
    if not (settings.encrypt or settings.encrypt_key or settings.encrypt_key_file):
        return None
    from redraft.events.sealing import REMEDY, read_master_key  # only those who use it wait for its import

    if settings.encrypt_key and settings.encrypt_key_file:
        raise InputError("REDRAFT_ENCRYPT_KEY and REDRAFT_ENCRYPT_KEY_FILE are both set; take one of them away")
    if settings.encrypt_key:
        return Encryption(read_master_key(settings.encrypt_key, "REDRAFT_ENCRYPT_KEY"), settings.encrypt)
    if settings.encrypt_key_file is None:
        raise InputError(f"REDRAFT_ENCRYPT is set without a key; {REMEDY}, which REDRAFT_ENCRYPT_KEY_FILE then names")
    try:
        text = settings.encrypt_key_file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InputError(f"REDRAFT_ENCRYPT_KEY_FILE {settings.encrypt_key_file} cannot be read: {why}") from None
    return Encryption(read_master_key(text, f"REDRAFT_ENCRYPT_KEY_FILE {settings.encrypt_key_file}"), settings.encrypt)
