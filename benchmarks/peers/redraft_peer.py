"""Redraft: `sqlite` in one process; `rabbit` on RabbitMQ and PostgreSQL, with a coordinator and a worker beside it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import loop
from peers.work import BRIEF, Loop, main
from place import open_place

from redraft.app.process import lifecycle


@asynccontextmanager
async def open_redraft(variant: str, folder: Path) -> AsyncIterator[Loop]:
    store, bus = (os.environ["STORE"], os.environ["BUS"]) if variant == "rabbit" else (f"sqlite:///{folder}/log.db", "")
    workflow = loop.workflow()
    async with open_place(store, bus, Path(loop.__file__), list(workflow.actors.values()), "quorum") as client:

        async def one(name: str) -> str:
            return (await client.wait(await client.submit(workflow.plan, BRIEF))).text

        yield one


if __name__ == "__main__":
    main(open_redraft, lifecycle.run)
