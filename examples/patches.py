"""A model mends a text of 2,000 words by edits, and each change says which issue it answers.

The model is one of REDRAFT_MODEL, or else a script: it judges and mends as it is told below, and its tokens are counted
by the same rule of thumb, four characters each. Run it: `python examples/patches.py`
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager

from model_answers import Json
from model_server import ModelServer

from redraft.actors import Brief, Workflow, errors, generator, step
from redraft.app import Result, Settings, read_settings, refine

SLIPS = {"the Moon pull the sea": "the Moon pulls the sea", "twice a weak": "twice a week", "recieve": "receive"}
WORDS = 2_000


@generator
def manual(brief: Brief) -> str:
    """A text of 2,000 words with three slips in it."""
    pages = [f"{brief.text}, page {number}: the water rises, stays a while, and falls." for number in range(1, 200)]
    for page, slip in zip((20, 90, 150), SLIPS, strict=True):
        pages[page] += f" On page {page + 1} they say {slip} here."
    words = " ".join(pages).split(" ")[:WORDS]
    return " ".join(words) + ".\n"


def mending(*, patch: bool) -> Workflow:
    return (
        Workflow("mending")
        .start_with(manual)
        .repeat_until(
            errors == 0,
            max_iterations=3,
            body=[
                step("llm", role="critic", name="proofread", options={"issues": True}),
                step("llm", role="refiner", name="mend", only_issues=True, options={"patch": patch}),
            ],
        )
    )


def answers(text: str) -> list[Json]:
    """The answers of the scripted model: about two slips, then about the third, which it overlooked before."""
    first, second, third = (
        {"quote": slip, "message": f"write: {right}", "severity": "error", "replacement": right}
        for slip, right in SLIPS.items()
    )
    replies = [[first, second], [third], []]
    judged: list[Json] = [{"for": "You judge", "reply": {"score": 9, "issues": each}} for each in replies]
    mended: list[Json] = []
    for each in replies[:2]:
        edits = [{"quote": issue["quote"], "replacement": issue["replacement"]} for issue in each]
        for edit in edits:
            text = text.replace(edit["quote"], edit["replacement"])
        mended += [{"for": "by edits of it", "reply": {"edits": edits, "changes": ["Put right slips."]}}]
        mended += [{"for": "the whole new text", "reply": {"text": text, "changes": ["Put right slips."]}}]
    return judged + mended


@contextmanager
def model(text: str) -> Iterator[Settings]:
    if os.environ.get("REDRAFT_MODEL"):
        yield read_settings()
        return
    with ModelServer(answers(text)) as server:
        yield read_settings(model="openai:scripted", model_url=server.url)


async def mended(*, patch: bool) -> Result:
    brief = Brief("Tides")
    with model(str(manual(brief))) as settings:
        return await refine(mending(patch=patch), brief.text, settings=settings)


async def main() -> None:
    patched, whole = await mended(patch=True), await mended(patch=False)
    for each in patched.critiques:
        for issue in each.critique.issues:
            print(f"draft {each.draft.version}, at {issue.span}: {issue.line}")
    for attempt in patched.attempts:
        edits = f"{len(attempt.edits)} edit{'s' * (len(attempt.edits) != 1)}"
        print(f"draft {attempt.after.version}: {edits}, about {attempt.saved_tokens:,} tokens saved")
    print(f"{len(patched.text.split()):,} words, {patched.outcome}: {patched.reason}")
    saved = whole.usage.output_tokens - patched.usage.output_tokens
    print(f"the model wrote {patched.usage.output_tokens:,} tokens instead of {whole.usage.output_tokens:,}")
    print(f"saved: {saved:,} tokens, {saved / whole.usage.output_tokens:.0%} of what it writes")


if __name__ == "__main__":
    asyncio.run(main())
