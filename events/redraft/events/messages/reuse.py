"""The key by which a verdict is taken again: the hash of all that a critic is given, with its actor and version."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from redraft.events.messages.content import Brief, DraftRef
from redraft.events.messages.plan import Step


def verdict_key(
    place: str, step: Step, brief: Brief, draft: DraftRef, media_type: str, outputs: Sequence[DraftRef]
) -> str:
    """Returns the SHA-256 of what the step at this `place` in the plan is given about a draft of this media type.

    Numbers of drafts, attempts and iterations take no part: the same texts give the same key.
    """
    actor = step.actor, step.version, dict(sorted(step.options.items()))
    declared = step.scale, step.criteria, step.measures
    texts = brief, draft.sha256, media_type, [each.sha256 for each in outputs]
    return sha256(msgspec.json.encode((place, actor, declared, texts), order="deterministic")).hexdigest()
