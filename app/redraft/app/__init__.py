"""Where the parts meet: settings, wiring, the command line, ready-made actors."""

from redraft.app.client import Client
from redraft.app.compose import House, open_house, open_log
from redraft.app.delivery import Retry
from redraft.app.deployment import open_client
from redraft.app.refine import refine
from redraft.app.result import Result
from redraft.app.settings import Settings, read_settings
from redraft.events.errors import DeliveryError

__all__ = [
    "Client",
    "DeliveryError",
    "House",
    "Result",
    "Retry",
    "Settings",
    "open_client",
    "open_house",
    "open_log",
    "read_settings",
    "refine",
]
