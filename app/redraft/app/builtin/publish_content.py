"""What the shipped publishers publish: the draft, or the finished drafts of a plan's loops as one text."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from redraft.actors.roles import Context
from redraft.events.content import Draft
from redraft.events.errors import PermanentError


class ContentOptions(msgspec.Struct, frozen=True):
    """`whole`: publish all finished drafts of the loops, such as the chapters of a book, a blank line between them."""

    whole: bool = False


def content_of(draft: Draft, context: Context, *, whole: bool) -> str:
    """The text to publish. Raises PermanentError when the `whole` is wanted and there is none."""
    if not whole:
        return draft.text
    if not context.outputs:
        raise PermanentError("option whole: no loop has finished a draft; take it away")
    return "\n\n".join(each.text.strip("\n") for each in context.outputs) + "\n"


def publication_key(draft: Draft, context: Context, text: str) -> str:
    """The idempotency key of a publication: of the run, the draft and what is published, the same at every attempt."""
    return sha256("\n".join((context.run, draft.sha256, sha256(text.encode()).hexdigest())).encode()).hexdigest()
