"""Ed25519 signatures (RFC 8032), with keys in PEM as OpenSSL has them."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from redraft.events.errors import InputError

REMEDY = "`redraft key signing FILE` makes a pair"


class Pair(msgspec.Struct, frozen=True):
    """A new pair of keys, each in PEM."""

    private: str
    public: str

    def __repr__(self) -> str:
        return "Pair(private=…, public=…)"


def new_pair() -> Pair:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return Pair(private.decode(), public.decode())


def read_private(pem: str, where: str) -> Ed25519PrivateKey:
    """The key that signs; raises InputError, which says where it was and never repeats it."""
    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{where} is no private Ed25519 key in PEM without a password; {REMEDY}")
    return key


def read_public(pem: str, where: str) -> Ed25519PublicKey:
    """The key that verifies; raises InputError."""
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{where} is no public Ed25519 key in PEM; {REMEDY}, and the public one ends with .pub")
    return key


def signed(key: Ed25519PrivateKey, message: bytes) -> str:
    """The signature of a message, in base64."""
    return b64encode(key.sign(message)).decode()


def is_signed(key: Ed25519PublicKey, message: bytes, signature: str) -> bool:
    """Whether this is the signature of the message by the private key that belongs to this public one."""
    try:
        key.verify(b64decode(signature, validate=True), message)
    except (InvalidSignature, Base64Error, ValueError):
        return False
    return True
