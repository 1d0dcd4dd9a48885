"""Ports for servers of the tests' own, which stop and start again on them."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import Final

_PORTS: Final = range(10_000, 32_000)
"""The kernel gives outgoing connections higher ones, also that of a server which is about to start again."""

_FOLDER: Final = Path(tempfile.gettempdir()) / "redraft-test-ports"


def free_port() -> int:
    """Returns a port that nobody listens on, and that no other process of the tests gets before this one has ended.

    A file stands for each port; it stays locked until the system closes it with the process.
    """
    _FOLDER.mkdir(exist_ok=True)
    while True:
        port = random.choice(_PORTS)
        mark = os.open(_FOLDER / str(port), os.O_CREAT | os.O_WRONLY)
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", port))
        except OSError:
            os.close(mark)
        else:
            return port
