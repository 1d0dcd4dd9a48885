"""Anthropic's messages, as in https://docs.anthropic.com/en/api/messages."""

from __future__ import annotations

from collections.abc import Iterator

from model_answers import Json, arguments_of, object_of, pieces, text_of, tokens_of


def whole(answer: Json, body: Json) -> Json:
    """An answer in one piece."""
    given, taken = tokens_of(answer, body)
    block = _block(answer, body)
    return {
        **_shape(body),
        "content": [block] if block else [],
        "stop_reason": _why(block),
        "usage": {"input_tokens": given, "output_tokens": taken},
    }


def streamed(answer: Json, body: Json) -> Iterator[Json | str]:
    """An answer as the events of a stream."""
    given, taken = tokens_of(answer, body)
    begun = {**_shape(body), "content": [], "stop_reason": None, "usage": {"input_tokens": given, "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    block = _block(answer, body)
    if block:
        is_call = block["type"] == "tool_use"
        empty = {**block, "input": {}} if is_call else {**block, "text": ""}
        yield {"type": "content_block_start", "index": 0, "content_block": empty}
        for piece in pieces(arguments_of(answer) if is_call else text_of(answer)):
            said = {"partial_json": piece} if is_call else {"text": piece}
            delta = {"type": "input_json_delta" if is_call else "text_delta", **said}
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
    ended = {"stop_reason": _why(block), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": taken}}
    yield {"type": "message_stop"}


def fault(answer: Json) -> Json:
    """Returns the text of an error."""
    return {"type": "error", "error": {"type": answer.get("code") or "api_error", "message": answer.get("error", "no")}}


def _shape(body: Json) -> Json:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "stop_sequence": None}


def _block(answer: Json, body: Json) -> Json:
    """Returns the text, or the call of the tool that the question offers; nothing when it is refused."""
    if "refusal" in answer:
        return {}
    if "reply" in answer and body.get("tools"):
        return {"type": "tool_use", "id": "toolu_1", "name": body["tools"][0]["name"], "input": object_of(answer)}
    return {"type": "text", "text": text_of(answer)}


def _why(block: Json) -> str:
    if not block:
        return "refusal"
    return "tool_use" if block["type"] == "tool_use" else "end_turn"
