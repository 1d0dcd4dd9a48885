"""A real HTTP server that webhooks are sent to: it keeps what came, and answers as it is told, also badly."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

DEADLINE = 45.0


@dataclass(frozen=True)
class Request:
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """`how` is the usual way, or never, or with the connection cut after half of it, or drop by drop without an end."""

    status: int = 204
    headers: tuple[tuple[str, str], ...] = ()
    how: Literal["whole", "never", "cut", "drops"] = "whole"


class Receiver:
    """`answers` are given one by one; after the last of them, and without any, it is 204."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self.port = 0
        self.answers: list[Answer] = []
        self.got: list[Request] = []
        self.connections = 0
        self._came = asyncio.Condition()

    def url(self, host: str = "127.0.0.1", path: str = "/hook?token=s3cret") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    @property
    def ids(self) -> list[str]:
        return [each.headers["webhook-id"] for each in self.got]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE), self._came:
            await self._came.wait_for(condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (request := await _read(reader)) is not None:
                answer = self.answers.pop(0) if self.answers else Answer()
                async with self._came:
                    self.got.append(request)
                    self._came.notify_all()
                if not await _answered(answer, reader, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode() if not reader.at_eof() else ""
    if not head:
        return None
    line, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)}
    return Request(line, headers, await reader.readexactly(int(headers.get("content-length", 0))))


async def _answered(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the connection can be used for more."""
    if answer.how == "never":
        await reader.read()
        return False
    headers = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
    writer.write(f"HTTP/1.1 {answer.status} Told\r\n{headers}".encode())
    if answer.how == "cut":
        return False
    if answer.how == "drops":
        writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
        while not reader.at_eof():
            writer.write(b"1\r\nx\r\n")
            await writer.drain()
            await asyncio.sleep(0.005)
        return False
    writer.write(b"Content-Length: 0\r\n\r\n" if answer.status != 204 else b"\r\n")
    await writer.drain()
    return True


@asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A receiver on a free port of this machine."""
    made = Receiver("https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(made.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
