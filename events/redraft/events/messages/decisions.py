"""The commands by which people decide on a draft, or give one of their own."""

from __future__ import annotations

import msgspec

from redraft.events.messages.content import DraftRef


class ApproveDraft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person approves the draft of this version and hash, at the `step` of this path; without one, at the first."""

    run: str
    draft: DraftRef
    reason: str = ""
    by: str = ""
    key: str = ""
    step: str = ""


class RejectDraft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person rejects the draft of this version and hash, as `ApproveDraft`; `reason` is the feedback."""

    run: str
    draft: DraftRef
    reason: str = ""
    by: str = ""
    key: str = ""
    step: str = ""


class EditDraft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person's own draft, made from `before`; with `latest` only while that is the run's newest or current draft."""

    run: str
    before: DraftRef
    text: str
    reason: str = ""
    by: str = ""
    key: str = ""
    latest: bool = False
