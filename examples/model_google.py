"""Google's generateContent, as in https://ai.google.dev/api/generate-content."""

from __future__ import annotations

from collections.abc import Iterator

from model_answers import Json, object_of, pieces, text_of, tokens_of


def whole(answer: Json, body: Json) -> Json:
    """An answer in one piece."""
    return _said(answer, body, [_part(answer, body)], _why(answer))


def streamed(answer: Json, body: Json) -> Iterator[Json | str]:
    """An answer as the events of a stream; a call comes in one piece."""
    part = _part(answer, body)
    parts = [{"text": piece} for piece in pieces(part["text"])] if "text" in part else [part]
    for each in parts[:-1]:
        yield _said(answer, body, [each], None)
    yield _said(answer, body, parts[-1:], _why(answer))


def fault(answer: Json) -> Json:
    """Returns the text of an error."""
    return {"error": {"code": answer["status"], "message": answer.get("error", "no"), "status": "NO"}}


def _said(answer: Json, body: Json, parts: list[Json], why: str | None) -> Json:
    given, taken = tokens_of(answer, body)
    candidate: Json = {"index": 0}
    if "refusal" not in answer:
        candidate["content"] = {"role": "model", "parts": parts}
    if why:
        candidate["finishReason"] = why
    used = {"promptTokenCount": given, "candidatesTokenCount": taken, "totalTokenCount": given + taken}
    return {"candidates": [candidate], "usageMetadata": used, "responseId": "r_1"}


def _part(answer: Json, body: Json) -> Json:
    if "reply" in answer and body.get("tools"):
        name = body["tools"][0]["functionDeclarations"][0]["name"]
        return {"functionCall": {"name": name, "args": object_of(answer)}}
    return {"text": text_of(answer)}


def _why(answer: Json) -> str:
    return "SAFETY" if "refusal" in answer else "STOP"
