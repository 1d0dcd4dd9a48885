"""The generator `source`: the brief's text is the first draft, as it stands."""

from __future__ import annotations

from redraft.actors.roles import generator
from redraft.app.builtin.release import RELEASE
from redraft.events.content import Brief, Draft, digest


@generator(name="source", version=RELEASE)
def source(brief: Brief) -> Draft:
    """The brief's own text and media type as draft 1; nothing is added, changed or left out."""
    return Draft(1, brief.text, digest(brief.text), brief.media_type)
