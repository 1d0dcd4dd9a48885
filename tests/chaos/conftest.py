"""A RabbitMQ node and a PostgreSQL cluster of the kill tests' own, in temporary folders and on free ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.chaos.scene import Scene, scene
from tests.events.postgres_cluster import Cluster, postgres_cluster
from tests.events.rabbit_node import RabbitNode, server_script

SETTINGS = "max_message_size = 134217728\n"
"""What 3.10 takes unless it is told otherwise; 4.x would take 16 MiB."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with postgres_cluster() as made:
        yield made


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    made = RabbitNode(tmp_path_factory.mktemp("rabbit"), server_script(), SETTINGS)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def there(tmp_path: Path, node: RabbitNode, cluster: Cluster) -> Iterator[Scene]:
    """A folder, names and a database of a test's own on these servers, which run."""
    with scene(tmp_path, node, cluster) as made:
        yield made


@pytest.fixture
def tell(pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Writes a line to the terminal: what was measured is of interest also when the test passes."""

    def write(line: str) -> None:
        with capsys.disabled():
            pytestconfig.get_terminal_writer().line(f"\n{line}")

    return write
