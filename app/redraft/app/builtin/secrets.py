"""Keeping secrets of the environment out of what is recorded, logged and shown."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

SHORTEST: Final = 8
"""Characters from which a variable's value in a text is taken for the secret itself."""

_NAMED: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_PLAIN: Final = re.compile(r"PUBLIC|_(?:FILE|PATH|DIR|ID)$", re.IGNORECASE)
_IN_URL: Final = re.compile(r"(://)[^\s/@]+@")


def secrets(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that hold secrets, going by their names, with their values."""
    return {
        name: value.strip()
        for name, value in environment.items()
        if _NAMED.search(name) and not _PLAIN.search(name) and len(value.strip()) >= SHORTEST
    }


def without_secrets(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text with the values of secret variables, and names and passwords in URLs, replaced by `***`."""
    for value in sorted(secrets(environment).values(), key=len, reverse=True):
        text = text.replace(value, "***")
    return _IN_URL.sub(r"\1***@", text)


def told_secret(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The name of a secret variable whose value is in the text; empty when there is none."""
    return next((name for name, value in secrets(environment).items() if value in text), "")
