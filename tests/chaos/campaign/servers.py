"""A RabbitMQ node and a PostgreSQL cluster of the campaign's own, each behind a proxy, on free ports."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from tests.events.postgres_cluster import Cluster, postgres_cluster
from tests.events.rabbit_node import RabbitNode, server_script
from tests.proxy import Proxy

_PLAIN: Final = "sslmode=disable&gssencmode=disable"
"""The proxy reads what is said: nothing is encrypted."""

_DISK: Final = 384
"""MiB of the small disk that the data of a server lies on where disks are to be full."""


class Servers(msgspec.Struct, frozen=True):
    """The servers, the proxies before them, and where the data of each lies."""

    node: RabbitNode
    cluster: Cluster
    broker: Proxy
    store: Proxy
    places: Mapping[str, Path]

    def settings(self, name: str) -> dict[str, str]:
        """What makes a deployment on a database and with a prefix of this name, through the proxies."""
        return {
            "REDRAFT_STORE": f"postgresql://postgres@127.0.0.1:{self.store.port}/{name}?{_PLAIN}",
            "REDRAFT_BUS": f"amqp://guest:guest@127.0.0.1:{self.broker.port}/",
            "REDRAFT_BROKER_PREFIX": name,
        }


@asynccontextmanager
async def servers(*, small: bool = False) -> AsyncIterator[Servers]:
    """Both servers, at work. `small`: the data of each lies on a small disk of its own."""
    with tempfile.TemporaryDirectory(prefix="redraft-campaign-") as folder, disks(Path(folder), small=small) as places:
        node = RabbitNode(places["broker"], server_script())
        try:
            node.start()
            with postgres_cluster(places["store"]) as cluster:
                async with Proxy(node.port).open() as broker, Proxy(cluster.port, speaks_postgres=True).open() as store:
                    yield Servers(node, cluster, broker, store, places)
        finally:
            node.close()


@contextmanager
def disks(folder: Path, *, small: bool) -> Iterator[dict[str, Path]]:
    """A folder for each server, each a small disk if it is to be: then OSError where none can be mounted."""
    places = {name: folder / name for name in ("broker", "store")}
    folder.chmod(0o755)
    mounted: list[Path] = []
    try:
        for place in places.values():
            place.mkdir()
            if small:
                mount(place, _DISK)
                mounted.append(place)
            place.chmod(0o777)
        yield places
    finally:
        for place in mounted:
            unmount(place)


def mount(place: Path, mebibytes: int) -> None:
    """Mounts a disk of this size, which is memory. Raises OSError where that is not allowed."""
    if os.geteuid() != 0:
        raise OSError("mounting a small disk needs root")
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=1777", "redraft-campaign", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"a small disk cannot be mounted: {done.stderr.strip()}")


def unmount(place: Path) -> None:
    """Takes such a disk away, as soon as nobody uses it."""
    subprocess.run(["umount", "--lazy", place], check=False)


@contextmanager
def full(place: Path) -> Iterator[None]:
    """The disk of this folder has no byte left while the block lasts."""
    filler = place / "filler"
    try:
        for size in (1 << 20, 512):
            with suppress(OSError), filler.open("ab", buffering=0) as file:
                while file.write(bytes(size)):
                    pass
        yield
    finally:
        filler.unlink(missing_ok=True)
