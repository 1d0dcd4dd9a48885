"""Signatures of webhooks, so that whoever receives one knows who sent it, and when.

They follow Standard Webhooks 1.0 (https://github.com/standard-webhooks/standard-webhooks): the signature is the
HMAC-SHA256, in base64, of the message's id, the time in seconds since 1970 and the body, with a full stop between them.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from typing import Final

from redraft.events.errors import InputError

PREFIX: Final = "whsec_"
"""What a secret in base64 begins with; one without it is taken as it stands."""

LEAST_BYTES: Final = 16


def read_secrets(text: str, where: str) -> tuple[bytes, ...]:
    """One secret or, while an old one is replaced, several with blanks between them; the first is the new one.

    Raises InputError, which names `where` it came from and never says what it is.
    """
    secrets = tuple(_secret(word, where) for word in text.split())
    if not secrets:
        raise InputError(f"{where} is empty: give at least {LEAST_BYTES} random bytes, such as `openssl rand -hex 32`")
    return secrets


def sign(secrets: Sequence[bytes], message: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`: one signature for each secret, each `v1,` and base64."""
    signed = f"{message}.{timestamp}.".encode() + body
    digests = (hmac.digest(secret, signed, "sha256") for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def _secret(word: str, where: str) -> bytes:
    try:
        raw = base64.b64decode(word.removeprefix(PREFIX), validate=True) if word.startswith(PREFIX) else word.encode()
    except binascii.Error:
        raise InputError(f"{where} begins with {PREFIX}, and what follows is not base64; copy it once more") from None
    if len(raw) < LEAST_BYTES:
        raise InputError(
            f"{where} is too short: give at least {LEAST_BYTES} bytes without a blank, such as `openssl rand -hex 32`"
        )
    return raw
