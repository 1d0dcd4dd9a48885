"""A PostgreSQL cluster of a test's own, in a temporary folder and on a free port, to be killed at will."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg
from tests.free_ports import free_port
from tests.services import missing

DEADLINE: Final = 60.0
"""Seconds within which a cluster has to start or stop."""


class Cluster:
    """Starts, stops and kills the server of one cluster; `url` is that of its database."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._server: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        command = [programs / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N"]
        subprocess.run([*command, "--locale=C"], check=True, capture_output=True, cwd=folder, **_owner())

    def start(self) -> None:
        """Returns when the server takes connections."""
        deadline = time.monotonic() + DEADLINE
        while not self._is_ready():
            if self._server is None or self._server.poll() is not None:
                self._launch()  # after a kill the last server's processes may still be on their way out
            if time.monotonic() > deadline:
                raise TimeoutError((self._folder / "log").read_text())
            time.sleep(0.02)

    def new_database(self, name: str) -> str:
        """Makes an empty database of this name; returns its URL."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0".encode())
        return f"{self.url.rpartition('/')[0]}/{name}"

    def back_up(self) -> Path:
        """A backup of the running server, in a folder of its own, as an operator makes one."""
        place = Path(tempfile.mkdtemp(prefix="backup-", dir=self._folder))
        if os.geteuid() == 0:
            shutil.chown(place, "postgres", "postgres")
        command = [self._programs / "pg_basebackup", "-D", place, "-h", "127.0.0.1", "-p", str(self.port)]
        options = ["-U", "postgres", "--checkpoint=fast", "--wal-method=stream"]
        subprocess.run([*command, *options], check=True, capture_output=True, cwd=self._folder, **_owner())
        return place

    def restore(self, backup: Path) -> None:
        """Puts a backup in the place of the data of a stopped server."""
        data = self._folder / "data"
        shutil.rmtree(data)
        backup.rename(data)

    def kill(self) -> None:
        """kill -9 of the server and the processes that serve connections, as when the machine fails."""
        if self._server is None or self._server.poll() is not None:
            return
        self._server.send_signal(signal.SIGSTOP)  # it would end the others in order
        for process in self._children():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._server.kill()
        self._server.wait(DEADLINE)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The server's sockets stay open, but nothing in it moves."""
        assert self._server is not None
        stopped = [self._server.pid, *self._children()]
        for process in stopped:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in stopped:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def runs(self) -> bool:
        """Whether the server has not ended."""
        return self._server is not None and self._server.poll() is None

    def stop(self) -> None:
        """Ends the server in order, and all connections with it."""
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGINT)
            self._server.wait(DEADLINE)

    def _children(self) -> list[int]:
        """The processes that serve connections, and those beside them."""
        assert self._server is not None
        found = subprocess.run(["pgrep", "-P", str(self._server.pid)], capture_output=True, text=True, check=False)
        return list(map(int, found.stdout.split()))

    def _launch(self) -> None:
        command = [self._programs / "postgres", "-D", self._folder / "data", "-p", str(self.port)]
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "60"}
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [*command, *(f"--{name}={value}" for name, value in settings.items())],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **_owner(),
            )

    def _is_ready(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def postgres_cluster(within: Path | None = None) -> Iterator[Cluster]:
    """A running cluster, its data in a folder of its own within this one; what it kept is gone afterwards."""
    programs = _programs()
    if programs is None:
        missing("PostgreSQL's initdb is not found; install the server (on Debian: apt install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="redraft-postgres-", dir=within))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        cluster = Cluster(programs, folder)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """The folder of the server's programs, which Debian keeps out of the PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None, key=lambda path: float(path.parent.name))


def _owner() -> dict[str, str]:
    """PostgreSQL does not run as root."""
    return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
