"""Extracts the text of a reply while it arrives, for `--watch`, also from a reply in JSON."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from typing import Final, TypeAlias

from pydantic_ai import RunContext
from pydantic_ai.messages import (
    AgentStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    RetryPromptPart,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from redraft.app.models.configuration import Watch
from redraft.projections.display import plain

Handler: TypeAlias = Callable[[RunContext[None], AsyncIterable[AgentStreamEvent]], Awaitable[None]]

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\n", "b": "", "f": "\n"}
_WHY: Final = 200


class JsonText:
    """Makes lines of text of JSON that comes in pieces: `key: value`, and a line with a dash for each text of a list.

    What is not JSON, such as the marks of a code block around it, is left out.
    """

    def __init__(self) -> None:
        self._open: list[str] = []
        self._in_string = False
        self._names_key = False
        self._escape = ""
        self._high = ""

    def feed(self, piece: str) -> str:
        """Returns the text that this piece adds."""
        return "".join(text for sign in piece for text in (self._read(sign) if self._in_string else self._skip(sign)))

    def _skip(self, sign: str) -> Iterator[str]:
        match sign:
            case "{" | "[":
                self._open.append(sign)
                self._names_key = sign == "{"
            case "}" | "]" if self._open:
                self._open.pop()
            case '"' if self._open:
                self._in_string = True
                yield "\n" if self._names_key else "\n- " if self._open[-1] == "[" else ""
            case ",":
                self._names_key = bool(self._open) and self._open[-1] == "{"
            case _ if self._open and (sign.isalnum() or sign in "+-."):
                yield sign

    def _read(self, sign: str) -> Iterator[str]:
        if self._escape:
            yield from self._read_escape(sign)
        elif sign == "\\":
            self._escape = sign
        elif sign == '"':
            self._in_string = False
            if self._names_key:
                self._names_key = False
                yield ": "
        else:
            yield sign

    def _read_escape(self, sign: str) -> Iterator[str]:
        self._escape += sign
        if self._escape[1] != "u":
            self._escape = ""
            yield _ESCAPES.get(sign, sign)
        elif len(self._escape) == len("\\u0000"):
            unit, self._escape = self._escape[2:], ""
            pair, self._high = self._high + f"\\u{unit}", ""
            if "d800" <= unit.lower() < "dc00":
                self._high = pair
            else:
                yield (
                    pair.encode("ascii", "ignore")
                    .decode("unicode_escape")
                    .encode("utf-16", "surrogatepass")
                    .decode("utf-16", "replace")
                )


def report_text_to(watch: Watch, path: str, *, as_json: bool) -> Handler:
    """Returns what tells `watch` the text of each reply; of a reply that is asked for again, first that it is, and why.

    `as_json`: the model writes its reply as JSON, and not as the argument of a tool.
    """
    step = 1

    async def tell(run: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
        nonlocal step
        if run.run_step > step:
            step = run.run_step
            watch(path, f"\n(asked again: {_why_again(run)})\n")
        text = JsonText()
        async for event in events:
            match event:
                case (
                    PartStartEvent(part=TextPart(content=piece))
                    | PartDeltaEvent(delta=TextPartDelta(content_delta=piece))
                ):
                    shown = text.feed(piece) if as_json else piece
                case PartStartEvent(part=ToolCallPart(args=str(piece))):
                    shown = text.feed(piece)
                case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=str(piece))):
                    shown = text.feed(piece)
                case _:
                    shown = ""
            if shown:
                watch(path, shown)

    return tell


def _why_again(run: RunContext[None]) -> str:
    """Returns in a line what was wrong with the last reply."""
    parts = [part for message in run.messages for part in message.parts if isinstance(part, RetryPromptPart)]
    return plain(parts[-1].model_response().partition("\n\nFix the errors")[0], _WHY) if parts else "no valid reply"
