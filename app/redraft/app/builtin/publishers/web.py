"""The publishers `html`, which writes a page, and `webhook`, which posts the draft to a URL."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from html import escape
from pathlib import Path
from typing import Annotated, Final

import httpx
import msgspec
from markdown_it import MarkdownIt

from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.context import Context
from redraft.actors.workflow.roles import publisher
from redraft.app.builtin.publishers.files import ContentOptions, content_of, publication_key, save_file
from redraft.app.builtin.support.options import RELEASE, read_options
from redraft.app.webhooks.sender import CheckedTransport, check_url, place_of, resolve
from redraft.events.errors import DeliveryError, InputError, PermanentError, StepError
from redraft.events.messages.content import Brief, Draft, Receipt

_LONGEST_ANSWER: Final = 64 * 1024
_POLICY: Final = "default-src 'none'; img-src https: data:; style-src 'unsafe-inline'"
_PAGE: Final = """<!doctype html>
<html{lang}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>body {{ max-width: 42em; margin: 2em auto; padding: 0 1em; font: 1.1em/1.5 serif }}</style>
</head>
<body>
{body}</body>
</html>
"""


class HtmlOptions(ContentOptions, frozen=True):
    """`path`: relative to the output folder (default: the run's id and `.html`). `title` and `lang` are the page's."""

    path: str = ""
    title: str = ""
    lang: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9-]{0,35}$")] = ""


class WebhookOptions(ContentOptions, frozen=True):
    """`url`, or `url_env`, the environment variable that holds it. `private`: it may be on a network of ours.

    `token_env` is the environment variable of a bearer token. A variable is used, and a network of ours reached, only
    where the worker's own setting `webhook_hosts` has it for the host of the URL.
    """

    url: str = ""
    url_env: str = ""
    token_env: str = ""
    private: bool = False


def to_html(markdown: str, title: str = "", lang: str = "") -> str:
    """A page of a text in Markdown (CommonMark, with tables). HTML in the text is shown, not obeyed."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    heading = next((line.lstrip("# ") for line in markdown.splitlines() if line.startswith("# ")), "")
    named = f' lang="{escape(lang)}"' if lang else ""
    return _PAGE.format(policy=_POLICY, lang=named, title=escape(title or heading or "Untitled"), body=body)


def html_publisher(root: Path) -> Actor:
    """The actor `html`, which writes the draft as a page below `root`, whole or not at all; options: HtmlOptions.

    Publishing the same text again changes nothing. It raises PermanentError when the path may not be written.
    """

    @publisher(name="html", version=RELEASE)
    def save(draft: Draft, brief: Brief, context: Context) -> Receipt:
        options = read_options(HtmlOptions, context.options, "html")
        text = content_of(draft, context, whole=options.whole)
        page = to_html(text, options.title, options.lang).encode()
        return save_file("html", root, options.path or f"{context.run}.html", page, draft.version)

    return save


def webhook_publisher(hosts: Mapping[str, Collection[str]]) -> Actor:
    """The actor `webhook`, which posts the draft as JSON; options: WebhookOptions.

    The receiver tells repetitions by the header Idempotency-Key. `hosts` are the setting `webhook_hosts`.
    A status of 2xx is the receipt. 408, 425, 429 and 5xx, and a receiver that is away, are tried again as the step's
    `retry` says; any other status fails it for good.
    """

    @publisher(name="webhook", version=RELEASE)
    async def post(draft: Draft, brief: Brief, context: Context) -> Receipt:
        options = read_options(WebhookOptions, context.options, "webhook")
        url = _url(options, hosts)
        text = content_of(draft, context, whole=options.whole)
        key = publication_key(draft, context, text)
        content = {"version": draft.version, "sha256": draft.sha256, "media_type": draft.media_type, "text": text}
        body = msgspec.json.encode({"run": context.run, "draft": content, "brief": {"source": brief.source}})
        headers = {"Content-Type": "application/json", "Idempotency-Key": key} | _token(options, url, hosts)
        status = await _post(url, body, headers, context.timeout, private=_is_private(options, url, hosts))
        if 200 <= status < 300:
            return Receipt(place_of(url), f"status {status}, version {draft.version}, key {key[:12]}")
        failure = StepError if status in (408, 425, 429) or status >= 500 else PermanentError
        raise failure(f"{place_of(url)} answered with the status {status}")

    return post


async def _post(url: httpx.URL, body: bytes, headers: dict[str, str], timeout: float, *, private: bool) -> int:
    """The status of the answer. Raises StepError, PermanentError."""
    place = place_of(url)
    transport = CheckedTransport(httpx.AsyncHTTPTransport(), allow_private=private, resolve=resolve)
    async with httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False) as client:
        try:
            async with client.stream("POST", url, content=body, headers=headers) as answer:
                return answer.status_code
        except httpx.HTTPError as error:
            raise StepError(f"{place} cannot be reached: {str(error) or type(error).__name__}") from None
        except DeliveryError as error:
            if "not public" in str(error):
                raise PermanentError(f"{place} has an address that is not public; private: true allows it") from None
            raise StepError(f"webhook: {error}") from None


def _url(options: WebhookOptions, hosts: Mapping[str, Collection[str]]) -> httpx.URL:
    if bool(options.url) == bool(options.url_env):
        raise PermanentError("webhook: give url, or url_env, the environment variable that holds it")
    if not options.url and not any(options.url_env in names for names in hosts.values()):
        raise PermanentError(_refusal(f"the environment variable {options.url_env}", "HOST", options.url_env))
    try:
        url = check_url(options.url or _value(options.url_env))
    except InputError as error:
        raise PermanentError(f"webhook: {error}") from None
    if not options.url:
        _require_allowed(options.url_env, url, hosts)
    return url


def _token(options: WebhookOptions, url: httpx.URL, hosts: Mapping[str, Collection[str]]) -> dict[str, str]:
    if not options.token_env:
        return {}
    _require_allowed(options.token_env, url, hosts)
    return {"Authorization": f"Bearer {_value(options.token_env)}"}


def _is_private(options: WebhookOptions, url: httpx.URL, hosts: Mapping[str, Collection[str]]) -> bool:
    if options.private and _names(url, hosts) is None:
        raise PermanentError(_refusal("a network of its own", _host(url)))
    return options.private


def _require_allowed(variable: str, url: httpx.URL, hosts: Mapping[str, Collection[str]]) -> None:
    """Raises PermanentError unless this worker may send the variable to the host of the URL."""
    if variable not in (_names(url, hosts) or ()):
        raise PermanentError(_refusal(f"the environment variable {variable}", _host(url), variable))


def _names(url: httpx.URL, hosts: Mapping[str, Collection[str]]) -> Collection[str] | None:
    """The variables that may be sent to the host of a URL; None for a host that the worker does not name."""
    named = {host.lower(): variables for host, variables in hosts.items()}
    return named.get(_host(url))


def _host(url: httpx.URL) -> str:
    return url.netloc.decode("ascii").lower()


def _refusal(what: str, host: str, *variables: str) -> str:
    allowed = msgspec.json.encode({host: list(variables)}).decode()
    return (
        f"webhook: this worker sends nothing to {host} by {what}; where it runs, set REDRAFT_WEBHOOK_HOSTS='{allowed}'"
    )


def _value(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise PermanentError(f"webhook: the environment variable {name} is not set here; set it where the worker runs")
    return value
