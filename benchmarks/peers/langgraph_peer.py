"""LangGraph, with a checkpoint stored before each next step (`durability="sync"`): on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from peers.work import COMMENT, ROUNDS, TEXT, Loop, main, refined


class State(TypedDict, total=False):
    draft: str
    rounds: int
    comment: str
    published: str


def graph(checkpointer: Any) -> Any:  # noqa: ANN401 - LangGraph's own
    steps = StateGraph(State)
    steps.add_node("write", lambda state: {"draft": TEXT, "rounds": 0})
    steps.add_node("judge", lambda state: {"comment": COMMENT})
    steps.add_node("improve", lambda state: {"draft": refined(state["draft"]), "rounds": state["rounds"] + 1})
    steps.add_node("save", lambda state: {"published": state["draft"]})
    steps.add_edge(START, "write")
    steps.add_edge("write", "judge")
    steps.add_conditional_edges("judge", lambda state: "improve" if state["rounds"] < ROUNDS else "save")
    steps.add_edge("improve", "judge")
    steps.add_edge("save", END)
    return steps.compile(checkpointer=checkpointer)


def _thread(name: str) -> Any:  # noqa: ANN401 - LangGraph's own
    return {"configurable": {"thread_id": name}, "recursion_limit": 50}


@asynccontextmanager
async def open_langgraph(variant: str, folder: Path) -> AsyncIterator[Loop]:
    opened = _on_postgresql() if variant == "postgresql" else _on_sqlite(folder)
    async with opened as one:
        yield one


@asynccontextmanager
async def _on_sqlite(folder: Path) -> AsyncIterator[Loop]:
    """The saver that is not asynchronous, and threads: the fastest of its ways on SQLite."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    with closing(sqlite3.connect(folder / "langgraph.db", check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        saver.setup()
        steps, threads = graph(saver), ThreadPoolExecutor(64)

        async def one(name: str) -> str:
            run = asyncio.get_running_loop().run_in_executor
            state = await run(threads, lambda: steps.invoke({}, _thread(name), durability="sync"))
            return str(state["published"])

        yield one
        threads.shutdown()


@asynccontextmanager
async def _on_postgresql() -> AsyncIterator[Loop]:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool

    settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(os.environ["STORE"], min_size=16, max_size=16, kwargs=settings) as pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        steps = graph(saver)

        async def one(name: str) -> str:
            return str((await steps.ainvoke({}, _thread(name), durability="sync"))["published"])

        yield one


if __name__ == "__main__":
    main(open_langgraph)
