"""The keys of a store's runs in memory: which run is sealed with which, and for which a key is still to be made."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

import msgspec

from redraft.events.errors import Sealed, Tampered
from redraft.events.run_keys import RunKeys

if TYPE_CHECKING:
    from redraft.events.sealing import Cipher

REMEMBERED: Final = 16_384
"""For how many runs the key is kept in memory, or that there is none."""

LOOKED_AT: Final = 100
"""How many keys are tried, at most, before the master key is taken for another store's."""


MARK: Final = ""
"""A name that no run has. A key that is kept under it says that new runs of this store are sealed."""


class Encryption(msgspec.Struct, frozen=True):
    """The master key (32 bytes), and whether runs that begin from now on are sealed."""

    master: bytes
    new_runs: bool = True

    def __repr__(self) -> str:
        return f"Encryption(master=…, new_runs={self.new_runs})"


class Keyring:
    """Used from any thread. Without a master key nothing can be sealed or opened."""

    def __init__(self, keys: RunKeys, encryption: Encryption | None) -> None:
        self.keys = keys
        self._encryption = encryption
        self._held: OrderedDict[str, Cipher | None] = OrderedDict()
        self._lock = Lock()
        self._seals_new = False

    @property
    def seals(self) -> bool:
        """Whether there is a master key."""
        return self._encryption is not None

    def check(self, run: str, kept: bytes) -> None:
        """Raises Sealed when the wrapped key of a run cannot be opened with the master key; without one, nothing."""
        if self._encryption is not None:
            from redraft.events.sealing import unwrapped  # only those who use it wait for its import

            unwrapped(self._encryption.master, run, kept)

    def held(self, run: str) -> tuple[bool, Cipher | None]:
        """Whether it is known in memory how a run is kept, and its cipher if it is sealed. Never waits."""
        with self._lock:
            return run in self._held, self._held.get(run)

    def opener(self, run: str) -> Cipher | None:
        """The cipher of a run with sealed texts, None when its key was destroyed.

        Raises Sealed without the master key, Tampered when the key of this run alone cannot be opened with it.
        """
        known, cipher = self.held(run)
        if known and cipher is not None:
            return cipher
        kept = self.keys.get(run)
        return None if kept is None else self._unwrapped(run, kept)

    def sealer(self, run: str, *, begins: bool) -> Cipher | None:
        """The cipher for what is to be recorded of a run; None when it is kept in the clear.

        A run that `begins` is given a key, if new runs are to be sealed (see `require_sealing`). Raises Sealed,
        Tampered, StoreError.
        """
        known, cipher = self.held(run)
        if known:
            return cipher
        kept = self.keys.get(run)
        if kept is None and begins and self.require_sealing() and self._encryption is not None:
            kept = self.keys.put(run, self._new(self._encryption.master))
        if kept is None:
            self._hold(run, None)
            return None
        return self._unwrapped(run, kept)

    def require_sealing(self) -> bool:
        """Whether runs that begin now are sealed: since it is asked for here, or since the store has begun to.

        Raises Sealed where the store has, and no key is given here, StoreError.
        """
        if not self._seals_new:
            if self._encryption is not None and self._encryption.new_runs:
                self.keys.put(MARK, b"sealed")
                self._seals_new = True
            else:
                self._seals_new = self.keys.get(MARK) is not None
        if self._seals_new and self._encryption is None:
            raise Sealed(
                "the store encrypts its runs, and no key is given here: nothing begins in the clear; give it in "
                "REDRAFT_ENCRYPT_KEY or REDRAFT_ENCRYPT_KEY_FILE"
            )
        return self._seals_new

    def drop(self, run: str) -> None:
        """Forgets a run's key."""
        with self._lock:
            self._held.pop(run, None)

    def _unwrapped(self, run: str, kept: bytes) -> Cipher:
        from redraft.events.sealing import Cipher, unwrapped  # only those who use it wait for its import

        if self._encryption is None:
            raise Sealed(
                f"run {run} is encrypted; give the key that it was recorded with in REDRAFT_ENCRYPT_KEY or "
                "REDRAFT_ENCRYPT_KEY_FILE"
            )
        master = self._encryption.master
        try:
            cipher = Cipher(run, unwrapped(master, run, kept))
        except Sealed:
            if self._opens_another(run, master):
                raise Tampered(
                    f"the key of run {run} was changed: the encryption key opens those of other runs, and not this one"
                ) from None
            raise
        self._hold(run, cipher)
        return cipher

    def _opens_another(self, run: str, master: bytes) -> bool:
        """Whether the master key is that of the store: the key of another run can be opened with it."""
        from redraft.events.sealing import unwrapped

        with self._lock:
            if any(self._held.values()):
                return True
        for other, kept in self.keys.page("", LOOKED_AT):
            with suppress(Sealed):
                unwrapped(master, other, kept)
                return True
        return False

    def _new(self, master: bytes) -> bytes:
        from redraft.events.sealing import new_run_key, wrapped

        return wrapped(master, new_run_key())

    def _hold(self, run: str, cipher: Cipher | None) -> None:
        with self._lock:
            self._held[run] = cipher
            self._held.move_to_end(run)
            if len(self._held) > REMEMBERED:
                self._held.popitem(last=False)
