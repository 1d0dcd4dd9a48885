"""The fixtures of the layers, for scenarios that go through several of them."""

from tests.app.conftest import home
from tests.events.conftest import log, notes

__all__ = ["home", "log", "notes"]
