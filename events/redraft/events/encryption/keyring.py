"""The keys of a store's runs: the ports of where they lie, and a cache of ciphers, which decides who gets one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from cachetools import LRUCache

from redraft.events.errors import EncryptionKeyMissing, KeyNotOverwritten, RunBarred, StoreError, Tampered

if TYPE_CHECKING:
    from redraft.events.encryption.cipher import Cipher

TABLE: Final = "redraft_keys"
IMPORTED: Final = "redraft_imported"

BARRED: Final = b""
"""Stands in place of the key of a run that may never begin."""


class RunKeys(Protocol):
    """Usable from any thread; `waits`: its methods block. Every method raises StoreError when the store is away."""

    waits: bool

    def get(self, run: str) -> bytes | None:
        """Returns the key of a run, or `BARRED`; None without either."""

    def put(self, run: str, wrapped: bytes) -> bytes:
        """Stores a key, durably, unless the run has one or is barred; returns what `get` does."""

    def bar(self, run: str) -> None:
        """Makes sure, durably, that a run that has not begun never gets a key, and loses one that it has."""

    def destroy(self, run: str) -> bool:
        """Deletes a key, and the copies of it that the store can reach; returns False when there is none.

        Raises KeyNotOverwritten when only the copies are left.
        """

    def page(self, after: str, limit: int) -> Sequence[tuple[str, bytes]]:
        """Returns up to `limit` runs with their keys, in the order of their ids, after the run `after`."""

    def is_imported(self, run: str) -> bool: ...

    def note_imported(self, runs: Iterable[str]) -> None:
        """Records, durably, that these runs were imported from an archive."""

    def close(self) -> None: ...


class MemoryKeys:
    """Keys of a store in memory."""

    waits = False

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._imported: set[str] = set()

    def get(self, run: str) -> bytes | None:
        return self._kept.get(run)

    def put(self, run: str, wrapped: bytes) -> bytes:
        return self._kept.setdefault(run, wrapped)

    def bar(self, run: str) -> None:
        self._kept[run] = BARRED

    def destroy(self, run: str) -> bool:
        return self._kept.pop(run, None) is not None

    def page(self, after: str, limit: int) -> Sequence[tuple[str, bytes]]:
        return [(run, key) for run, key in sorted(self._kept.items()) if run > after and key != BARRED][:limit]

    def is_imported(self, run: str) -> bool:
        return run in self._imported

    def note_imported(self, runs: Iterable[str]) -> None:
        self._imported.update(runs)

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


class KeyTables(Protocol):
    """The tables of a database for `TABLE` and `IMPORTED`. Its methods block, and raise StoreError.

    `collation` is the database's name for the order of texts by their bytes.
    """

    collation: str
    where: str

    def ask(self, table: str, statement: str, *values: str | int | bytes) -> list[tuple[Any, ...]]:
        """Executes a statement, with the table for `{}` and a value for each `?`; returns [] without the table."""

    def add(self, table: str, rows: Sequence[tuple[str | bytes, ...]]) -> None:
        """Adds the rows that are not there yet, durably; creates the table if needed."""

    def purge(self) -> None:
        """Overwrites the rows that were deleted from the table of keys."""

    def close(self) -> None: ...


class DatabaseKeys:
    """Keys in the database of a store."""

    waits = True

    def __init__(self, tables: KeyTables) -> None:
        self._tables = tables
        self.close = tables.close

    def get(self, run: str) -> bytes | None:
        found = self._tables.ask(TABLE, "SELECT wrapped FROM {} WHERE run = ?", run)
        return _key(found[0][0]) if found else None

    def put(self, run: str, wrapped: bytes) -> bytes:
        self._tables.add(TABLE, [(run, wrapped)])
        kept = self.get(run)
        if kept is None:
            raise StoreError(f"store {self._tables.where}: the key of run {run} was destroyed")
        return kept

    def bar(self, run: str) -> None:
        update = "ON CONFLICT (run) DO UPDATE SET wrapped = excluded.wrapped"
        if not self._tables.ask(TABLE, f"INSERT INTO {{}} VALUES (?, ?) {update} RETURNING run", run, BARRED):  # noqa: S608
            raise StoreError(f"store {self._tables.where}: run {run} was not barred; see redraft doctor")

    def destroy(self, run: str) -> bool:
        gone = self._tables.ask(TABLE, "DELETE FROM {} WHERE run = ? RETURNING run", run)
        try:
            self._tables.purge()
        except StoreError as error:
            raise KeyNotOverwritten(str(error)) from error
        return bool(gone)

    def page(self, after: str, limit: int) -> Sequence[tuple[str, bytes]]:
        column = f'run COLLATE "{self._tables.collation}"'
        rest = f"WHERE {column} > ? AND length(wrapped) > 0 ORDER BY {column} LIMIT ?"
        found = self._tables.ask(TABLE, f"SELECT run, wrapped FROM {{}} {rest}", after, limit)  # noqa: S608
        return [(str(run), _key(wrapped)) for run, wrapped in found]

    def is_imported(self, run: str) -> bool:
        return bool(self._tables.ask(IMPORTED, "SELECT 1 FROM {} WHERE run = ?", run))

    def note_imported(self, runs: Iterable[str]) -> None:
        self._tables.add(IMPORTED, [(run,) for run in runs])


def _key(found: object) -> bytes:
    """Returns a key as it is stored; a file that was tampered with may hold any value, which then opens nothing."""
    return found if isinstance(found, bytes) else repr(found).encode(errors="replace")


REMEMBERED: Final = 16_384
"""The number of runs whose cipher, or lack of one, is cached."""

LOOKED_AT: Final = 100
"""The most keys that are tried before the master key is considered to be another store's."""

MARK: Final = ""
"""A name that no run has. A key under it means that new runs are encrypted, with the master key that opens it."""

_PLAIN_MARK: Final = b"sealed"
"""The value that earlier releases stored under `MARK`. It does not tell which master key the store has."""


_GIVE_KEY: Final = "give the key in REDRAFT_ENCRYPT_KEY or REDRAFT_ENCRYPT_KEY_FILE"


class Encryption(msgspec.Struct, frozen=True):
    """The master key (32 bytes), and whether new runs are encrypted."""

    master: bytes
    new_runs: bool = True

    def __repr__(self) -> str:
        return f"Encryption(master=…, new_runs={self.new_runs})"


class Keyring:
    """Gives out ciphers, from any thread. Without a master key nothing `seals`: it can be neither written nor read."""

    def __init__(self, keys: RunKeys, encryption: Encryption | None) -> None:
        self.keys = keys
        self._encryption = encryption
        self.seals = encryption is not None
        self._held: LRUCache[str, Cipher | None] = LRUCache(REMEMBERED)
        self._lock = Lock()
        self._seals_new = False

    def check(self, run: str, kept: bytes) -> None:
        """Raises EncryptionKeyMissing when there is a master key that cannot open the wrapped key of a run."""
        if self._encryption is not None:
            from redraft.events.encryption.cipher import unwrap_key  # late: start-up time

            unwrap_key(self._encryption.master, run, kept)

    def held(self, run: str) -> tuple[bool, Cipher | None]:
        """Returns whether the cache knows how a run is kept, and its cipher if it is encrypted. Never waits."""
        with self._lock:
            return run in self._held, self._held.get(run)

    def opener(self, run: str) -> Cipher | None:
        """Returns the cipher of an encrypted run, None when its key was destroyed.

        Raises EncryptionKeyMissing without the right master key, Tampered when it opens all keys but this one.
        """
        known, cipher = self.held(run)
        if known and cipher is not None:
            return cipher
        kept = self.keys.get(run)
        return self._open_cipher(run, kept) if kept else None

    def sealer(self, run: str, *, begins: bool) -> Cipher | None:
        """Returns the cipher for new events of a run; None when it is kept in plain text.

        A run that `begins` gets a key if new runs are encrypted (see `require_sealing`). Raises EncryptionKeyMissing,
        Tampered, StoreError, RunBarred.
        """
        known, cipher = self.held(run)
        if known:
            return cipher
        kept = self.keys.get(run)
        if kept is None and begins and self.require_sealing() and self._encryption is not None:
            kept = self.keys.put(run, self._new(self._encryption.master))
        if kept == BARRED and begins:
            raise RunBarred(run)
        if not kept:
            self._hold(run, None)
            return None
        return self._open_cipher(run, kept)

    def require_sealing(self) -> bool:
        """Returns whether new runs are encrypted: the settings ask for it, or the store does so already.

        All new runs of a store have one master key. Raises EncryptionKeyMissing where the store encrypts and no key is
        given here, or another one; StoreError.
        """
        if self._seals_new:
            return True
        given = self._encryption
        if given is not None and given.new_runs:
            mark: bytes | None = self.keys.put(MARK, self._new(given.master))
        else:
            mark = self.keys.get(MARK)
        if mark is None:
            return False
        if given is None:
            raise EncryptionKeyMissing(
                f"the store encrypts its runs, and no key is given here, so no run can begin: {_GIVE_KEY}"
            )
        if not self._is_master(mark):
            raise EncryptionKeyMissing(
                f"the store encrypts its runs, and the key given here is not its own, so no run can begin: {_GIVE_KEY}"
            )
        self._seals_new = True
        return True

    def _is_master(self, mark: bytes) -> bool:
        """Returns whether the master key is the one that new runs of this store are encrypted with."""
        if mark == _PLAIN_MARK:
            return self._opens_another() or not self.keys.page("", 1)
        with suppress(EncryptionKeyMissing):
            self.check(MARK, mark)
            return True
        return False

    def drop(self, run: str) -> None:
        """Removes a run's key from the cache."""
        with self._lock:
            self._held.pop(run, None)

    def _open_cipher(self, run: str, kept: bytes) -> Cipher:
        from redraft.events.encryption.cipher import Cipher, unwrap_key  # late: start-up time

        if self._encryption is None:
            raise EncryptionKeyMissing(
                f"run {run} is encrypted; give the key that it was recorded with in REDRAFT_ENCRYPT_KEY or "
                "REDRAFT_ENCRYPT_KEY_FILE"
            )
        try:
            cipher = Cipher(run, unwrap_key(self._encryption.master, run, kept))
        except EncryptionKeyMissing:
            if self._opens_another():
                raise Tampered(
                    f"the key of run {run} was changed: the encryption key opens those of other runs, and not this one"
                ) from None
            raise
        self._hold(run, cipher)
        return cipher

    def _opens_another(self) -> bool:
        """Returns whether the master key opens the key of another run, and so is that of the store."""
        with self._lock:
            if any(self._held.values()):
                return True
        for other, kept in self.keys.page("", LOOKED_AT):
            with suppress(EncryptionKeyMissing):
                self.check(other, kept)
                return True
        return False

    def _new(self, master: bytes) -> bytes:
        from redraft.events.encryption.cipher import new_run_key, wrap_key

        return wrap_key(master, new_run_key())

    def _hold(self, run: str, cipher: Cipher | None) -> None:
        with self._lock:
            self._held[run] = cipher
