"""A deployment whose workers ask a model, in processes of its own on the shared RabbitMQ."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.app.deployments import Deployment
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq

from redraft.events.bus.port import INBOX, work_queue

MODEL = "openai:gpt-4o"
ACTOR_KEYS = (
    ("generator", "llm"),
    ("generator", "source"),
    ("critic", "pytest"),
    ("critic", "ruff"),
    ("critic", "llm"),
    ("critic", "verify"),
    ("critic", "agreement"),
    ("critic", "public-names"),
    ("refiner", "llm"),
    ("publisher", "stdout"),
)


class ModelDeployment(Deployment):
    """One whose workers know a model, and where it is; nobody else does."""

    model_url = ""

    def environment(self, bus: str = "") -> dict[str, str]:
        there = {"REDRAFT_MODEL_URL": self.model_url, "REDRAFT_MODEL": MODEL} if self.model_url else {}
        return super().environment(bus) | there


@contextmanager
def deployed(folder: Path, store: str) -> Iterator[ModelDeployment]:
    require_rabbitmq()
    made = ModelDeployment(folder, new_prefix(), store, "quorum")
    try:
        yield made
    finally:
        made.stop()
        asyncio.run(clear(URL, made.prefix, (INBOX, *(work_queue(*key) for key in ACTOR_KEYS))))
