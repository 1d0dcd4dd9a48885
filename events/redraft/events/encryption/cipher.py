"""Encrypts the texts of a run: one key for each run, wrapped by a master key that is kept elsewhere.

The cipher is AES-256-SIV (RFC 5297): the same texts at the same place give the same bytes. So an append that is
repeated because its answer was lost is recognised, which a random nonce would prevent. The place (run, version, name)
is authenticated with the texts. Keys are wrapped by AES Key Wrap (RFC 3394).
"""

from __future__ import annotations

import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from redraft.events.errors import EncryptionKeyMissing, InputError, Tampered
from redraft.events.messages.redaction import Place, Text

MASTER_BYTES: Final = 32
RUN_BYTES: Final = 64
"""Two keys of 256 bits, as AES-256-SIV takes them."""

REMEDY: Final = "`redraft key encryption FILE` makes one"
_TEXTS: Final = msgspec.json.Decoder(list[tuple[Place, Text]])


class Cipher:
    """Encrypts and decrypts the texts of one run."""

    def __init__(self, run: str, key: bytes) -> None:
        self._run = run
        self._siv = AESSIV(key)

    def seal(self, version: int, name: str, texts: list[tuple[Place, Text]]) -> str:
        """Returns the encrypted texts of an event, with their places, as base64."""
        return b64encode(self._siv.encrypt(msgspec.json.encode(texts), self._where(version, name))).decode()

    def open(self, version: int, name: str, sealed: str) -> list[tuple[Place, Text]]:
        """Returns the texts that were encrypted at this place; raises Tampered for anything else."""
        try:
            return _TEXTS.decode(self._siv.decrypt(b64decode(sealed, validate=True), self._where(version, name)))
        except (InvalidTag, Base64Error, ValueError) as error:
            where = f"event {version} of run {self._run} ({name})"
            raise Tampered(
                f"{where} is not what was recorded: its texts cannot be opened with the run's key"
            ) from error

    def _where(self, version: int, name: str) -> list[bytes]:
        return [f"{self._run}\n{version}\n{name}".encode()]


def new_run_key() -> bytes:
    return secrets.token_bytes(RUN_BYTES)


def new_master_key() -> str:
    """Returns a new master key in base64, the form used in settings and key files."""
    return b64encode(secrets.token_bytes(MASTER_BYTES)).decode()


def read_master_key(text: str, where: str) -> bytes:
    """Returns the master key in a text; raises InputError, which names the source `where` and never the key."""
    try:
        key = b64decode(text.strip(), validate=True)
    except (Base64Error, ValueError):
        key = b""
    if len(key) != MASTER_BYTES:
        raise InputError(f"{where}: an encryption key is {MASTER_BYTES} bytes in base64; {REMEDY}")
    return key


def wrap_key(master: bytes, key: bytes) -> bytes:
    return aes_key_wrap(master, key)


def unwrap_key(master: bytes, run: str, kept: bytes) -> bytes:
    """Returns the run's key; raises EncryptionKeyMissing when it was wrapped by another master key, or is damaged."""
    try:
        key = aes_key_unwrap(master, kept)
    except (InvalidUnwrap, ValueError) as error:
        raise EncryptionKeyMissing(
            f"the key of run {run} cannot be opened with this encryption key: give the one that it was recorded with "
            "in REDRAFT_ENCRYPT_KEY or REDRAFT_ENCRYPT_KEY_FILE"
        ) from error
    return key
