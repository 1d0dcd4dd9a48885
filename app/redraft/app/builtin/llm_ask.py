"""One question to a model: asked, checked, asked again with what is wrong, and counted."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from time import monotonic
from typing import Final, TypeAlias, TypeVar

from pydantic_ai import Agent, ModelRetry, RunContext, capture_run_messages
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestRejectedError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import (
    AgentStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model
from pydantic_ai.output import NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.settings import ModelSettings

from redraft.actors.roles import Context
from redraft.app.builtin.llm_model import model_or_fault, usage_of
from redraft.app.builtin.llm_options import LlmOptions
from redraft.app.builtin.llm_prompt import Prompt, question
from redraft.app.builtin.llm_reply import Reply
from redraft.app.builtin.secrets import told_secret, without_secrets
from redraft.app.models import Models, Watch
from redraft.app.prices import stated_price
from redraft.events.errors import ContentError, PermanentError, StepError

LONGEST: Final = 300
"""Characters of a model server's words that an error holds."""

Handler: TypeAlias = Callable[[RunContext[None], AsyncIterable[AgentStreamEvent]], Awaitable[None]]

T = TypeVar("T", bound=str | Reply)


async def ask(
    models: Models,
    options: LlmOptions,
    context: Context,
    prompt: Prompt,
    texts: dict[str, str],
    reply: type[T],
    fault: Callable[[T], str] = lambda _: "",
) -> T:
    """A model's reply to these instructions and texts, of this type and without a `fault`; what it used is reported.

    Raises ContentError when no reply is valid after `asks` times; PermanentError when asking again would not help: a
    model, key or request that is refused; StepError when it may: the server is busy, broken, cut off, or the reply is.
    """
    name = options.model or models.default
    model = model_or_fault(name, models.url)
    if isinstance(model, str):
        raise PermanentError(f"llm: {model}")
    agent = _agent(model, options, context.timeout, reply, fault)
    asked = question(prompt, texts)
    stated = stated_price(context.options, name, models.prices)
    began = monotonic()
    with (
        capture_run_messages() as messages,
        context.metered(lambda: usage_of(messages, stated, name, prompt.sha256, monotonic() - began)),
    ):
        try:
            async with models.turns.of(name), agent:
                handler = _watching(models.watch, context.path) if models.watch else None
                done = await agent.run(asked.message, instructions=asked.instructions, event_stream_handler=handler)
        except Exception as error:  # noqa: BLE001 - whatever the library raises is told without secrets
            raise _told(error, name, options.asks) from None
    given = done.output
    if secret := told_secret(given if isinstance(given, str) else given.model_dump_json()):
        raise PermanentError(f"llm: the reply of {name} holds the value of {secret}; see where it has it from")
    return given


def _agent(
    model: Model, options: LlmOptions, timeout: float, reply: type[T], fault: Callable[[T], str]
) -> Agent[None, T]:
    settings = ModelSettings(timeout=timeout)
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    if options.max_tokens is not None:
        settings["max_tokens"] = options.max_tokens
    agent: Agent[None, T] = Agent(
        model,
        output_type=_output(reply, options),
        deps_type=type(None),
        retries={"output": options.asks - 1},
        model_settings=settings,
    )

    @agent.output_validator
    def check(run: RunContext[None], given: T) -> T:
        if not run.partial_output and (wrong := fault(given)):
            raise ModelRetry(wrong)
        return given

    return agent


def _output(reply: type[T], options: LlmOptions) -> type[T] | ToolOutput[T] | NativeOutput[T] | PromptedOutput[T]:
    if issubclass(reply, str):
        return reply
    match options.output:
        case "tool":
            return ToolOutput(reply, name="reply")
        case "native":
            return NativeOutput(reply)
        case "prompted":
            return PromptedOutput(reply)


def _watching(
    watch: Watch, path: str
) -> Callable[[RunContext[None], AsyncIterable[AgentStreamEvent]], Awaitable[None]]:
    async def tell(_: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            if text := _written(event):
                watch(path, text)

    return tell


def _written(event: AgentStreamEvent) -> str:
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            return text
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
        case PartStartEvent(part=ToolCallPart(args=str(text))):
            return text
        case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=str(text))):
            return text
        case _:
            return ""


def _told(error: Exception, name: str, asks: int) -> StepError | ContentError:
    """What went wrong, in one line without secrets, as the error that says whether to try again."""
    match error:
        case StepError() | ContentError():
            return error
        case ContentFilterError():
            return PermanentError(_line(f"{name} refused to answer: {error.message}"))
        case ModelQuotaExceededError() | ModelRequestRejectedError():
            return PermanentError(_line(f"{name} refused the request: {_said(error)}"))
        case ModelHTTPError(status_code=status) if 400 <= status < 500 and status not in (408, 409, 425, 429):
            return PermanentError(_line(f"{name} refused the request: {_said(error)}"))
        case ModelAPIError():
            return StepError(_line(f"{name} could not be asked: {_said(error)}"))
        case UnexpectedModelBehavior():
            times = f"in {asks} tries" if asks > 1 else "in 1 try"
            return ContentError(_line(f"got no valid reply from {name} {times}: {_cause(error)}"))
        case _:
            return StepError(_line(f"{name} could not be asked: {type(error).__name__}: {error}"))


def _said(error: ModelAPIError) -> str:
    """The status and the server's own words, where it has any."""
    if not isinstance(error, ModelHTTPError):
        return _cause(error)
    body = error.body
    inner = body.get("error", body) if isinstance(body, dict) else body
    words = inner.get("message", inner) if isinstance(inner, dict) else inner
    return f"status {error.status_code}: {words or error.message}"


def _cause(error: ModelAPIError | UnexpectedModelBehavior) -> str:
    """Its message, and what it came from where that says more."""
    cause = str(error.__cause__ or "")
    return error.message if cause in error.message else f"{error.message} {cause}"


def _line(text: str) -> str:
    line = " ".join(without_secrets(text).split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
