"""A server that speaks OpenAI's protocol and answers from a script: for trying and testing workflows without a model.

    python examples/model_server.py examples/answers/tides.jsonl --port 8080
    REDRAFT_MODEL_URL=http://127.0.0.1:8080/v1 redraft run "Why tides exist" --workflow article --model openai:scripted

Each line of a script is one answer, given to the next question that it is `for` (a piece of the question's
instructions, such as "You judge") and `about` (a piece of its message); without them, to any question. It holds what
the model says: `text`, or a `reply` (an object, given as the arguments of the tool that the question offers, or as JSON
text). `status` with `headers` is an error, `refusal` the model's refusal, `delay` seconds before it answers, `cut`
characters after which the connection is closed; `always` keeps it for further questions.

It speaks OpenAI's chat completions and responses, Anthropic's messages and Google's generateContent, whole or streamed.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import model_anthropic
import model_google
import model_openai
from model_answers import Json

if TYPE_CHECKING:
    from redraft.app.settings.settings import Settings


class Cut(Exception):
    """The connection is closed in the middle of an answer."""


class ModelServer:
    """Serves at `url` until it is closed. `asked` holds every question: its path, headers, and body.

    `url` is for OpenAI's protocol, `root` for the others.
    """

    def __init__(self, answers: Iterable[Json], port: int = 0) -> None:
        self._answers = list(answers)
        self._lock = threading.Lock()
        self.asked: list[Json] = []
        served = self

        class Handler(_Handler):
            server_of_model = served

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True
        self.root = f"http://127.0.0.1:{self._http.server_address[1]}"
        self.url = f"{self.root}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def wait(self) -> None:
        """Returns when it has been closed."""
        self._thread.join()

    @property
    def left(self) -> list[Json]:
        """The answers that nobody has asked for yet."""
        with self._lock:
            return list(self._answers)

    def answer_to(self, path: str, headers: Json, body: Json) -> Json:
        """The next answer for this question; an error when the script has none left for it."""
        told, message = instructions_of(body), message_of(body)
        with self._lock:
            self.asked.append({"path": path, "headers": headers, "body": body, "time": time.monotonic()})
            for number, answer in enumerate(self._answers):
                if answer.get("for", "") in told and answer.get("about", "") in message:
                    return answer if answer.get("always") else self._answers.pop(number)
        return {"status": 400, "error": f"the script has no answer left for: {told[:80]}"}


def read_script(path: Path) -> list[Json]:
    """The answers in a file, one JSON object a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def instructions_of(body: Json) -> str:
    """The instructions of a question, in any protocol."""
    if "contents" in body:
        return "\n".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", ()))
    if "messages" in body:
        told = [each["content"] for each in body["messages"] if each["role"] in ("system", "developer")]
        own = body.get("system", "")
        told += [own] if isinstance(own, str) else [block["text"] for block in own]
        return "\n".join(map(str, told)).strip()
    return str(body.get("instructions") or "")


def message_of(body: Json) -> str:
    """Returns the question of a request, in any protocol, as JSON text."""
    asked = [each for each in body.get("messages", ()) if each["role"] not in ("system", "developer")]
    return json.dumps(asked or body.get("contents") or body.get("input"), ensure_ascii=False)


@contextmanager
def scripted(name: str) -> Iterator[Settings]:
    """Settings with the model of REDRAFT_MODEL; else with a server that answers from `answers/NAME.jsonl`."""
    from redraft.app.settings.settings import read_settings

    if os.environ.get("REDRAFT_MODEL"):
        yield read_settings()
        return
    with ModelServer(read_script(Path(__file__).parent / "answers" / f"{name}.jsonl")) as server:
        yield read_settings(model="openai:scripted", model_url=server.url)


def protocol_of(path: str) -> ModuleType:
    """The protocol that is spoken at a path."""
    if path.partition("?")[0].endswith("/messages"):
        return model_anthropic
    return model_google if "enerateContent" in path else model_openai


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_model: ModelServer

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        answer = self.server_of_model.answer_to(self.path, dict(self.headers.items()), body)
        time.sleep(answer.get("delay", 0))
        with suppress(BrokenPipeError, ConnectionResetError):
            try:
                self._answer(answer, body)
            except Cut:
                self.close_connection = True
                self.connection.close()

    def _answer(self, answer: Json, body: Json) -> None:
        if (status := answer.get("status", 200)) != 200:
            error = json.dumps(protocol_of(self.path).fault(answer)).encode()
            self._send(error, status, answer.get("headers", {}))
        elif "raw" in answer:
            self._send(answer["raw"].encode(), 200, {})
        elif body.get("stream") or ":streamGenerateContent" in self.path:
            self._stream(protocol_of(self.path).streamed(answer, body), answer.get("cut"))
        else:
            raw = json.dumps(protocol_of(self.path).whole(answer, body)).encode()
            self._send(raw, 200, {}, cut=answer.get("cut"))

    def _send(self, raw: bytes, status: int, headers: Json, cut: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(raw[:cut])
        self.wfile.flush()
        if cut is not None:
            raise Cut

    def _stream(self, events: Iterator[Json | str], cut: int | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent = 0
        for event in events:
            name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
            data = event if isinstance(event, str) else json.dumps(event)
            raw = f"{name}data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))
            self.wfile.flush()
            sent += len(raw)
            if cut is not None and sent >= cut:
                raise Cut
        self.wfile.write(b"0\r\n\r\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", type=Path, help="the answers, one JSON object a line")
    parser.add_argument("--port", type=int, default=8080)
    asked = parser.parse_args()
    with ModelServer(read_script(asked.script), asked.port) as server:
        print(f"serving {server.url}", flush=True)
        with suppress(KeyboardInterrupt):
            server.wait()


if __name__ == "__main__":
    main()
