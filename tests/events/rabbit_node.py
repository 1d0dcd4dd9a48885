"""A RabbitMQ node for tests that break it: on free ports and in a folder of its own. Others are not touched."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from tests.free_ports import free_port

START: Final = 90.0
"""Seconds in which a node has to be up or down."""

_SCRIPTS: Final = ("/usr/lib/rabbitmq/bin/rabbitmq-server",)
"""Where packages put the script that is to be run as the present user; what is on the PATH may ask for another."""

_HEADER: Final = b"AMQP\0\0\x09\x01"


class RabbitNode:
    """One node. Its data outlives `kill` and `stop`; `wipe` takes it away. `settings` count from the next start on."""

    def __init__(self, folder: Path, script: str, settings: str = "") -> None:
        self._folder = folder
        self._script = script
        self.settings = settings
        self.port, self._dist, self._epmd_port = free_port(), free_port(), free_port()
        self._epmd: subprocess.Popen[bytes] | None = None
        self._node: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Starts the node and waits until it speaks AMQP."""
        environment = self._environment()
        if self._epmd is None:
            epmd = ["epmd", "-port", str(self._epmd_port), "-address", "127.0.0.1"]
            self._epmd = subprocess.Popen(epmd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (self._folder / "pid").unlink(missing_ok=True)
        with (self._folder / "output.log").open("ab") as output:
            self._node = subprocess.Popen(
                [self._script], env=environment, stdout=output, stderr=output, start_new_session=True
            )
        end = time.monotonic() + START
        while not self._speaks():
            if time.monotonic() > end:
                pytest.fail(f"the RabbitMQ node of the tests did not start:\n{self.log()[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Shuts the node down in order, as an operator does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the node at once, as the kernel does when memory runs out."""
        self._end(signal.SIGKILL)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The node's sockets stay open, but nothing in it moves."""
        pid = self._pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            end = time.monotonic() + START
            while not _stands_still(pid):  # its threads are told, and stop when they next get to run
                assert time.monotonic() < end
                time.sleep(0.001)
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def runs(self) -> bool:
        """Whether the node has not ended."""
        return self._node is not None and self._node.poll() is None

    def answers(self) -> bool:
        """Whether the node speaks AMQP."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(_HEADER)
                return bool(connection.recv(8))
        except OSError:
            return False

    def dead_queues(self) -> list[str]:
        """The queues that the node lists as `down` or the like: it goes on, and does not start them again."""
        rows = [line.split("\t") for line in self._control("list_queues", "name", "state").splitlines()]
        return [row[0] for row in rows if len(row) > 1 and row[1] in ("down", "crashed", "stopped", "minority")]

    def end_queue(self, name: str) -> None:
        """Ends a quorum queue, as a full disk at times does."""
        self._control("eval", f'ra:stop_server(quorum_queues, {{list_to_atom("%2F_{name}"), node()}}).')

    def _control(self, *what: str) -> str:
        """What `rabbitmqctl` says."""
        asked = [
            str(Path(self._script).with_name("rabbitmqctl")),
            "--silent",
            "--node",
            f"redraft-{self.port}@localhost",
        ]
        done = subprocess.run(
            [*asked, *what], env=self._environment(), capture_output=True, text=True, check=True, timeout=START
        )
        return done.stdout

    def wipe(self) -> None:
        """Takes all data of a stopped node away."""
        shutil.rmtree(self._folder / "data")

    async def restart(self) -> None:
        await asyncio.to_thread(self.start)

    def close(self) -> None:
        if self._node is not None and self._node.poll() is None:
            with suppress(ProcessLookupError, FileNotFoundError):
                self.kill()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()

    def log(self) -> str:
        return (self._folder / "output.log").read_text(errors="replace")

    def _environment(self) -> Mapping[str, str]:
        (self._folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.default = 127.0.0.1:{self.port}\nlog.console = true\nlog.file = false\n{self.settings}"
        )
        (self._folder / "env.conf").touch()
        (self._folder / "plugins").write_text("[].\n")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("RABBITMQ_")},
            "HOME": str(self._folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"redraft-{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._dist),
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(self._folder / "env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "RABBITMQ_PID_FILE": str(self._folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def _end(self, how: signal.Signals) -> None:
        os.kill(self._pid(), how)
        assert self._node is not None
        self._node.wait(START)

    def _pid(self) -> int:
        return int((self._folder / "pid").read_text())

    def _speaks(self) -> bool:
        assert self._node is not None
        if self._node.poll() is not None:
            pytest.fail(f"the RabbitMQ node of the tests ended:\n{self.log()[-2000:]}")
        return self.answers()


def _stands_still(pid: int) -> bool:
    """Whether each thread of a process is stopped."""
    states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]
    return all(state in "tT" for state in states)


def server_script() -> str:
    """The script that starts a node; skips the test where RabbitMQ is not installed, and fails it where it must be.

    REDRAFT_TEST_RABBITMQ_SERVER names another than the one that is installed.
    """
    installed = next((script for script in _SCRIPTS if Path(script).exists()), shutil.which("rabbitmq-server"))
    found = os.environ.get("REDRAFT_TEST_RABBITMQ_SERVER", installed)
    if found and shutil.which("epmd"):
        return found
    line = "rabbitmq-server and epmd are not installed here: install RabbitMQ to run the tests that break a node"
    if os.environ.get("REDRAFT_REQUIRE_SERVICES") == "1":
        pytest.fail(line, pytrace=False)
    pytest.skip(line)
