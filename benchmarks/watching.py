"""The readers of the dashboard while `dashboard.py` measures it: a process of its own, that takes little time itself.

`python benchmarks/watching.py ask URL COUNT` asks for a page again and again, and prints the seconds that each took.
`python benchmarks/watching.py open URL RUN LISTS RUNS` keeps pages open until its input ends, and prints when each
event of the run stood on its page, and how many bytes came: compressed, as browsers ask for it, but for the page that
is read here.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import sys
import time
from typing import Final
from urllib.parse import urlsplit

import httpx

_SHOWN: Final = re.compile(rb'name="at" min="1" max="(\d+)"')
_PAUSE: Final = 0.05
"""Seconds between two requests for a page: somebody who clicks through the list, not a flood."""


def ask(url: str, count: int) -> None:
    taken = []
    with httpx.Client(base_url=url, timeout=60) as client:
        for _ in range(count):
            begun = time.perf_counter()
            client.get("/runs").raise_for_status()
            taken.append(time.perf_counter() - begun)
            time.sleep(_PAUSE)
    print(json.dumps(taken))


def keep_open(url: str, run: str, lists: int, runs: int) -> None:
    """Keeps streams open. Of the first of the run's, the number of events that it shows is read, with the time."""
    chosen = selectors.DefaultSelector()
    for number in range(lists + runs):
        path = f"/live/runs/{run}" if number < runs else "/live/runs"
        is_read = number == 0 and runs > 0
        chosen.register(_opened(url, path, "identity" if is_read else "gzip"), selectors.EVENT_READ, is_read)
    chosen.register(sys.stdin, selectors.EVENT_READ, None)
    seen: dict[int, float] = {}
    received, held, latest = 0, b"", b""
    while True:
        for key, _ in chosen.select():
            if key.data is None:
                print(json.dumps({"seen": seen, "bytes": received}))
                return
            assert isinstance(key.fileobj, socket.socket)  # noqa: S101 - the only other file is stdin
            chunk = key.fileobj.recv(1 << 20)
            if not chunk or chunk.startswith(b"HTTP/1.1 4"):
                raise SystemExit(f"a stream has ended, or never began, after {received:,} bytes: {(chunk or latest)!r}")
            received, latest = received + len(chunk), chunk[-200:]
            if key.data:
                held = (held + chunk)[-200_000:]
                found = _SHOWN.findall(held)
                if found:
                    seen.setdefault(int(found[-1]), time.time())


def _opened(url: str, path: str, encoding: str) -> socket.socket:
    place = urlsplit(url)
    made = socket.create_connection((place.hostname or "", place.port or 80))
    wanted = f"Accept: text/event-stream\r\nAccept-Encoding: {encoding}"
    made.sendall(f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\n{wanted}\r\n\r\n".encode())
    return made


if __name__ == "__main__":
    verb, *given = sys.argv[1:]
    if verb == "ask":
        ask(given[0], int(given[1]))
    else:
        keep_open(given[0], given[1], int(given[2]), int(given[3]))
