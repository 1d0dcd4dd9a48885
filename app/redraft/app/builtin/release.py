"""The version of the actors that ship with Redraft: that of the release which they came with."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

RELEASE: Final = f"redraft-{version('redraft')}"
