"""Apache Burr: its asynchronous SQLite persister stores the state after each step, with a write-ahead log set by us."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from burr.core import ApplicationBuilder, State, action, default, expr
from burr.integrations.persisters.b_aiosqlite import AsyncSQLitePersister
from peers.work import COMMENT, ROUNDS, TEXT, Loop, main, refined

logging.disable(logging.WARNING)


@action(reads=[], writes=["draft", "rounds", "passed"])
async def write(state: State) -> State:
    return state.update(draft=TEXT, rounds=0, passed=False)


@action(reads=["rounds"], writes=["comment", "passed"])
async def judge(state: State) -> State:
    return state.update(comment=COMMENT, passed=state["rounds"] == ROUNDS)


@action(reads=["draft", "rounds"], writes=["draft", "rounds"])
async def improve(state: State) -> State:
    return state.update(draft=refined(state["draft"]), rounds=state["rounds"] + 1)


@action(reads=["draft"], writes=["published"])
async def save(state: State) -> State:
    return state.update(published=state["draft"])


STEPS = {"write": write, "judge": judge, "improve": improve, "save": save}
EDGES = (("write", "judge"), ("judge", "save", expr("passed")), ("judge", "improve", default), ("improve", "judge"))


@asynccontextmanager
async def open_burr(variant: str, folder: Path) -> AsyncIterator[Loop]:
    persister = await AsyncSQLitePersister.from_values(str(folder / "burr.db"))
    await persister.connection.execute("PRAGMA journal_mode=WAL")
    await persister.initialize()

    async def one(name: str) -> str:
        steps = ApplicationBuilder().with_actions(**STEPS).with_transitions(*EDGES).with_entrypoint("write")
        steps = steps.with_state(rounds=0).with_identifiers(app_id=name).with_state_persister(persister)
        _, _, state = await (await steps.abuild()).arun(halt_after=["save"])
        return str(state["published"])

    try:
        yield one
    finally:
        await persister.connection.close()


if __name__ == "__main__":
    main(open_burr)
