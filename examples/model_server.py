"""A server that speaks OpenAI's protocol and answers from a script: for trying and testing workflows without a model.

    python examples/model_server.py examples/answers/tides.jsonl --port 8080
    REDRAFT_MODEL_URL=http://127.0.0.1:8080/v1 redraft run "Why tides exist" --workflow article --model openai:scripted

Each line of a script is one answer, given to the next question that it is `for` (a piece of the question's
instructions, such as "You judge") and `about` (a piece of its message); without them, to any question. It holds what
the model says: `text`, or a `reply` (an object, given as the arguments of the tool that the question offers, or as JSON
text). `status` with `headers` is an error, `refusal` the model's refusal, `delay` seconds before it answers, `cut`
characters after which the connection is closed; `always` keeps it for further questions.

It speaks chat completions and responses, whole and streamed, as in https://platform.openai.com/docs/api-reference.
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
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from redraft.app.settings import Settings

Json: TypeAlias = dict[str, Any]

PIECE = 12
"""Characters of each piece of a streamed answer."""


class Cut(Exception):
    """The connection is closed in the middle of an answer."""


class ModelServer:
    """Serves at `url` until it is closed. `asked` holds every question: its path, headers, and body."""

    def __init__(self, answers: Iterable[Json], port: int = 0) -> None:
        self._answers = list(answers)
        self._lock = threading.Lock()
        self.asked: list[Json] = []
        served = self

        class Handler(_Handler):
            server_of_model = served

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
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
    """The instructions of a question, in either protocol."""
    if "messages" in body:
        return "\n".join(str(each["content"]) for each in body["messages"] if each["role"] in ("system", "developer"))
    return str(body.get("instructions") or "")


def message_of(body: Json) -> str:
    """What is asked by a question, in either protocol, as JSON text."""
    asked = [each for each in body.get("messages", ()) if each["role"] not in ("system", "developer")]
    return json.dumps(asked or body.get("input"), ensure_ascii=False)


@contextmanager
def scripted(name: str) -> Iterator[Settings]:
    """Settings with the model of REDRAFT_MODEL; else with a server that answers from `answers/NAME.jsonl`."""
    from redraft.app.settings import read_settings

    if os.environ.get("REDRAFT_MODEL"):
        yield read_settings()
        return
    with ModelServer(read_script(Path(__file__).parent / "answers" / f"{name}.jsonl")) as server:
        yield read_settings(model="openai:scripted", model_url=server.url)


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
            error = {"error": {"message": answer.get("error", "no"), "type": "error", "code": answer.get("code")}}
            self._send(json.dumps(error).encode(), status, answer.get("headers", {}))
        elif "raw" in answer:
            self._send(answer["raw"].encode(), 200, {})
        elif body.get("stream"):
            self._stream(streamed(answer, body), answer.get("cut"))
        else:
            raw = json.dumps(whole(answer, body)).encode()
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


def whole(answer: Json, body: Json) -> Json:
    """An answer in one piece."""
    return _whole_chat(answer, body) if "messages" in body else _whole_response(answer, body)


def streamed(answer: Json, body: Json) -> Iterator[Json | str]:
    """An answer as the events of a stream."""
    return _streamed_chat(answer, body) if "messages" in body else _streamed_response(answer, body)


def _tool(answer: Json, body: Json) -> str:
    """The name of the tool that the answer calls; empty when it is said as text."""
    tools = body.get("tools") or []
    if "reply" not in answer or not tools:
        return ""
    return str(tools[0].get("function", tools[0])["name"])


def _text(answer: Json) -> str:
    return str(answer["text"]) if "text" in answer else json.dumps(answer.get("reply", ""), ensure_ascii=False)


def _usage(answer: Json, body: Json) -> tuple[int, int]:
    """Tokens in and out, by a rule of thumb: four characters each."""
    return len(json.dumps(body)) // 4, max(1, len(_text(answer)) // 4)


def _whole_chat(answer: Json, body: Json) -> Json:
    given, taken = _usage(answer, body)
    message: Json = {"role": "assistant", "content": None}
    if "refusal" in answer:
        message["refusal"] = answer["refusal"]
    elif name := _tool(answer, body):
        call = {"name": name, "arguments": answer.get("arguments", _text(answer))}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
    else:
        message["content"] = _text(answer)
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
    return {
        "id": "chat_1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body["model"],
        "choices": [choice],
        "usage": {"prompt_tokens": given, "completion_tokens": taken, "total_tokens": given + taken},
    }


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def _streamed_chat(answer: Json, body: Json) -> Iterator[Json | str]:
    shape = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": body["model"]}

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**shape, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    name = _tool(answer, body)
    yield chunk({"role": "assistant", "content": ""})
    if "refusal" in answer:
        yield chunk({"refusal": answer["refusal"]})
    elif name:
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
        yield chunk({"tool_calls": [call]})
        for piece in _pieces(answer.get("arguments", _text(answer))):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    else:
        for piece in _pieces(_text(answer)):
            yield chunk({"content": piece})
    yield chunk({}, "tool_calls" if name else "stop")
    given, taken = _usage(answer, body)
    usage = {"prompt_tokens": given, "completion_tokens": taken, "total_tokens": given + taken}
    yield {**shape, "choices": [], "usage": usage}
    yield "[DONE]"


def _whole_response(answer: Json, body: Json, status: str = "completed") -> Json:
    given, taken = _usage(answer, body)
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "model": body["model"],
        "output": [_item(answer, body)] if status == "completed" else [],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": taken,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": given + taken,
        },
    }


def _item(answer: Json, body: Json) -> Json:
    if name := _tool(answer, body):
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "status": "completed"}
        return {**call, "arguments": answer.get("arguments", _text(answer))}
    part = (
        {"type": "refusal", "refusal": answer["refusal"]}
        if "refusal" in answer
        else {"type": "output_text", "text": _text(answer), "annotations": []}
    )
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def _streamed_response(answer: Json, body: Json) -> Iterator[Json]:
    item = _item(answer, body)
    bare = {**item, "arguments": ""} if "arguments" in item else {**item, "content": []}
    at = {"output_index": 0, "item_id": item["id"]}
    events: list[Json] = [
        {"type": "response.created", "response": _whole_response(answer, body, "in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": bare},
    ]
    if "arguments" in item:
        deltas = _pieces(item["arguments"])
        events += [{"type": "response.function_call_arguments.delta", **at, "delta": piece} for piece in deltas]
        done = {"arguments": item["arguments"], "name": item["name"]}
        events.append({"type": "response.function_call_arguments.done", **at, **done})
    else:
        (part,) = item["content"]
        kind, text = ("refusal", part["refusal"]) if "refusal" in part else ("output_text", part["text"])
        inside = {**at, "content_index": 0}
        empty = {**part, ("refusal" if kind == "refusal" else "text"): ""}
        events.append({"type": "response.content_part.added", **inside, "part": empty})
        events += [
            {"type": f"response.{kind}.delta", **inside, "delta": piece, "logprobs": []} for piece in _pieces(text)
        ]
        events.append({"type": "response.content_part.done", **inside, "part": part})
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({"type": "response.completed", "response": _whole_response(answer, body)})
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


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
