"""OpenAI's chat completions and responses, as in https://platform.openai.com/docs/api-reference."""

from __future__ import annotations

from collections.abc import Iterator

from model_answers import Json, arguments_of, pieces, text_of, tokens_of


def whole(answer: Json, body: Json) -> Json:
    """An answer in one piece."""
    return _whole_chat(answer, body) if "messages" in body else _whole_response(answer, body)


def streamed(answer: Json, body: Json) -> Iterator[Json | str]:
    """An answer as the events of a stream."""
    return _streamed_chat(answer, body) if "messages" in body else _streamed_response(answer, body)


def fault(answer: Json) -> Json:
    """Returns the text of an error."""
    return {"error": {"message": answer.get("error", "no"), "type": "error", "code": answer.get("code")}}


def _tool(answer: Json, body: Json) -> str:
    """The name of the tool that the answer calls; empty when it is said as text."""
    tools = body.get("tools") or []
    if "reply" not in answer or not tools:
        return ""
    return str(tools[0].get("function", tools[0])["name"])


def _whole_chat(answer: Json, body: Json) -> Json:
    given, taken = tokens_of(answer, body)
    message: Json = {"role": "assistant", "content": None}
    if "refusal" in answer:
        message["refusal"] = answer["refusal"]
    elif name := _tool(answer, body):
        call = {"name": name, "arguments": arguments_of(answer)}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
    else:
        message["content"] = text_of(answer)
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
    return {
        "id": "chat_1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body["model"],
        "choices": [choice],
        "usage": {"prompt_tokens": given, "completion_tokens": taken, "total_tokens": given + taken},
    }


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
        for piece in pieces(arguments_of(answer)):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    else:
        for piece in pieces(text_of(answer)):
            yield chunk({"content": piece})
    yield chunk({}, "tool_calls" if name else "stop")
    given, taken = tokens_of(answer, body)
    usage = {"prompt_tokens": given, "completion_tokens": taken, "total_tokens": given + taken}
    yield {**shape, "choices": [], "usage": usage}
    yield "[DONE]"


def _whole_response(answer: Json, body: Json, status: str = "completed") -> Json:
    given, taken = tokens_of(answer, body)
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
        return {**call, "arguments": arguments_of(answer)}
    part = (
        {"type": "refusal", "refusal": answer["refusal"]}
        if "refusal" in answer
        else {"type": "output_text", "text": text_of(answer), "annotations": []}
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
        deltas = pieces(item["arguments"])
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
            {"type": f"response.{kind}.delta", **inside, "delta": piece, "logprobs": []} for piece in pieces(text)
        ]
        events.append({"type": "response.content_part.done", **inside, "part": part})
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({"type": "response.completed", "response": _whole_response(answer, body)})
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}
