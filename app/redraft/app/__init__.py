"""Where the parts meet: settings, wiring, the command line, ready-made actors."""

from redraft.app.client import Client
from redraft.app.compose import House, open_house, open_log
from redraft.app.refine import refine
from redraft.app.result import Result
from redraft.app.settings import Settings, read_settings

__all__ = ["Client", "House", "Result", "Settings", "open_house", "open_log", "read_settings", "refine"]
