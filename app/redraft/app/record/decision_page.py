"""The page of a link by which somebody without an account decides on a draft. It loads nothing and runs no script."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Final

import msgspec
from markupsafe import Markup

from redraft.app.record.auditing.audit_page import page_environment
from redraft.events.messages.content import Draft

_STYLE: Final = """
main > p, form > p { margin-top: 1rem; }
label { font-size: .9rem; color: var(--quiet); }
textarea, button { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--rule); }
textarea, button { border-radius: .4rem; }
textarea { width: 100%; min-height: 6rem; padding: .5rem .7rem; margin-top: .3rem; }
button { padding: .5rem 1.1rem; margin-right: .5rem; cursor: pointer; color: var(--bad); }
button[value="approve"] { background: var(--accent); border-color: var(--accent); color: var(--paper); }
:is(textarea, button):focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
"""
"""The styles that the page has beside those of the audit page."""


class Question(msgspec.Struct, frozen=True):
    """The decision page of a link: who decides, on which draft of which run, and the CSRF token of the form."""

    name: str
    workflow: str
    run: str
    draft: Draft
    csrf: str


class Page(msgspec.Struct, frozen=True):
    """A page, and the policy that says what a browser may do with it."""

    content: bytes
    policy: str


def question_page(question: Question) -> Page:
    """Returns the page with the draft, and two buttons."""
    return _render("Decide on a draft", question, "")


def told_page(title: str, told: str) -> Page:
    """Returns a page that says one thing."""
    return _render(title, None, told)


def _render(title: str, question: Question | None, told: str) -> Page:
    folder = files("redraft.app.record").joinpath("templates")
    style = folder.joinpath("audit.css").read_text(encoding="utf-8") + _STYLE
    digest = b64encode(sha256(style.encode()).digest()).decode()
    values = {"title": title, "question": question, "told": told, "style": Markup(style)}  # noqa: S704 - our own
    content = page_environment().get_template("decision.html").render(**values)
    own = "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    return Page(content.encode(), f"default-src 'none'; style-src 'sha256-{digest}'; {own}")
