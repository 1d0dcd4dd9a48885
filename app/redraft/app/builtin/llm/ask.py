"""One question to a model: asked, checked, asked again with what is wrong, and counted."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final, TypeVar
from urllib.parse import urlsplit

from pydantic_ai import Agent, ModelRetry, RunContext, capture_run_messages
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestRejectedError,
    UnexpectedModelBehavior,
)
from pydantic_ai.models import Model
from pydantic_ai.output import NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.settings import ModelSettings

from redraft.actors.workflow.context import Context
from redraft.app.builtin.llm.prompt import LlmOptions, Prompt, question
from redraft.app.builtin.llm.reply import Reply
from redraft.app.builtin.llm.watching import report_text_to
from redraft.app.models.configuration import Models, stated_price
from redraft.app.models.provider import model_or_fault, usage_of
from redraft.app.process.logs import find_secret, without_secrets
from redraft.events.errors import ContentError, PermanentError, StepError

LONGEST: Final = 300
"""Characters of a model server's words that an error holds."""

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
                as_json = not issubclass(reply, str) and options.output != "tool"
                handler = report_text_to(models.watch, context.path, as_json=as_json) if models.watch else None
                done = await agent.run(asked.message, instructions=asked.instructions, event_stream_handler=handler)
        except Exception as error:  # noqa: BLE001 - whatever the library raises is told without secrets
            raise error_of(error, name, options.asks, server_of(model, models.url)) from None
    answer = done.output
    if secret := find_secret(answer if isinstance(answer, str) else answer.model_dump_json()):
        raise PermanentError(f"llm: the reply of {name} holds the value of {secret}; find out how the model got it")
    return answer


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


def server_of(model: Model, url: str) -> str:
    """Returns where a model is, and what to do where nobody answers there."""
    remedy = "check the network, or name a server of yours with REDRAFT_MODEL_URL"
    where = url or model.base_url or model.system
    if url:
        remedy = "start that server, or correct REDRAFT_MODEL_URL"
    elif model.system == "ollama":
        remedy = "start it with `ollama serve`, or correct OLLAMA_BASE_URL"
    elif urlsplit(where).hostname in ("localhost", "127.0.0.1", "::1"):
        remedy = f"start the server there, or correct {model.system.upper()}_BASE_URL or REDRAFT_MODEL_URL"
    return f"the server {where} cannot be reached; {remedy}"


def _is_away(error: BaseException | None) -> bool:
    """Returns whether no connection could be made, which the library of the provider wraps into errors of its own."""
    while error is not None:
        if type(error).__name__ == "ConnectError" or isinstance(error, ConnectionError):
            return True
        error = error.__cause__ or error.__context__
    return False


def error_of(error: Exception, name: str, asks: int, server: str) -> StepError | ContentError:
    """Returns the error in one line without secrets; its class says whether to try again.

    `server` says what to do when there is nobody to ask.
    """
    match error:
        case StepError() | ContentError():
            return error
        case ContentFilterError():
            return PermanentError(_line(f"{name} refused to answer: {error.message}"))
        case ModelQuotaExceededError() | ModelRequestRejectedError():
            return PermanentError(_line(f"{name} refused the request: {_message_of(error)}"))
        case ModelHTTPError(status_code=status) if 400 <= status < 500 and status not in (408, 409, 425, 429):
            return PermanentError(_line(f"{name} refused the request: {_message_of(error)}"))
        case _ if _is_away(error):
            return StepError(_line(f"{name} could not be asked: {server}"))
        case ModelAPIError():
            return StepError(_line(f"{name} could not be asked: {_message_of(error)}"))
        case UnexpectedModelBehavior():
            times = f"in {asks} tries" if asks > 1 else "in 1 try"
            return ContentError(_line(f"got no valid reply from {name} {times}: {_cause(error)}"))
        case _:
            return StepError(_line(f"{name} could not be asked: {type(error).__name__}: {error}"))


def _message_of(error: ModelAPIError) -> str:
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
