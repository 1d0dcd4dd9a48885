"""The templates of the pages: those of the audit page with more beside them, and its functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.resources import files
from threading import Lock
from typing import Final

from cachetools import LRUCache, cached
from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup, escape

from redraft.app.record.auditing.audit_page import page_environment
from redraft.events.messages.scales import read_scale
from redraft.projections.display import cost_text, quoted, usage_text
from redraft.projections.run_views.state import side_text

STATIC: Final = {
    "audit.css": ("redraft.app.record", "templates", "text/css; charset=utf-8"),
    "dashboard.css": ("redraft.app.dashboard", "static", "text/css; charset=utf-8"),
    "icon.svg": ("redraft.app.dashboard", "static", "image/svg+xml"),
    "htmx.min.js": ("redraft.app.dashboard", "static", "text/javascript; charset=utf-8"),
    "dashboard.js": ("redraft.app.dashboard", "static", "text/javascript; charset=utf-8"),
}
"""The files that pages load: where each lies, and its media type."""

NAVIGATION: Final = (
    ("Runs", (("/runs", "Runs"), ("/search", "Search"), ("/compare", "Compare"), ("/whatif", "What if"))),
    ("Quality", (("/issues", "Issues"), ("/critics", "Critics"), ("/costs", "Costs"))),
    (
        "Operations",
        (("/actors", "Actors"), ("/dead-letters", "Dead letters"), ("/subscriptions", "Subscriptions")),
    ),
    ("Record", (("/events", "Events"), ("/chain", "Verification"))),
)
"""The pages that every page leads to, and their names, in groups."""

WHOLE: Final = 300
"""The maximum number of characters shown of a name that has to be told apart from others that begin as it does."""

KEPT: Final = 8_000_000
"""The most characters of parts of pages that are kept."""


@cache
def static_file(name: str) -> bytes:
    """Returns what a file holds that pages load."""
    package, folder, _ = STATIC[name]
    return files(package).joinpath(folder, name).read_bytes()


def static_url(name: str) -> str:
    """Returns the address of a file that pages load, which changes with it."""
    return f"/static/{name}?v={sha256(static_file(name)).hexdigest()[:12]}"


@cache
def release() -> str:
    """Returns what tells the files that pages load apart from those of another release."""
    return sha256("".join(map(static_url, STATIC)).encode()).hexdigest()[:12]


@cache
def environment() -> Environment:
    """Returns the environment of the pages. It escapes every value, and rejects names that are not defined."""
    shared = page_environment()
    found = shared.overlay(
        loader=ChoiceLoader([PackageLoader("redraft.app.dashboard"), PackageLoader("redraft.app.record")])
    )
    found.globals = {
        **shared.globals,
        **{each.__name__: each for each in _FUNCTIONS},
        "navigation": NAVIGATION,
        "WHOLE": WHOLE,
    }
    return found


@cached(LRUCache(KEPT, len), lock=Lock(), info=True)
def kept(macro: Callable[..., Markup], *shown: object) -> Markup:
    """Returns what a macro of a template shows of these values, from before where it has shown the same."""
    return macro(*shown)


def exact(text: str) -> Markup:
    """Returns a text for a form, escaped: also what is not seen, and has a symbol elsewhere on a page, is as it is."""
    return escape(text)


_FUNCTIONS: Final[tuple[Callable[..., object], ...]] = (
    *(static_url, release, kept, exact),
    *(quoted, usage_text, cost_text, read_scale, side_text),
)


def render(template: str, **values: object) -> str:
    """Returns what a template shows of these values."""
    return environment().get_template(template).render(values)
