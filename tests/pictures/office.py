"""Workflows of an office, for pictures of the dashboard: their actors answer at once, and cost what models do."""

import asyncio
from pathlib import Path

from redraft.actors import (
    Critique,
    Issue,
    Retry,
    Revision,
    StepError,
    Usage,
    Workflow,
    approve,
    critic,
    generator,
    parallel,
    publisher,
    refiner,
    repeat,
    score,
    step,
)

HERE = Path(__file__).parent
CRITERIA = {
    "clarity": "a reader of twelve understands it",
    "evidence": "what it claims is shown",
    "brevity": "no idle word",
}
TIDES = """# Why there are two tides a day

In order to understand the tides, it is very very important to look at gravity first. The Moon pulls at the Earth, \
and the water that is nearest to it is pulled the most, so that it rises.

Many people believe that the far side has low water at this time. It does not: there is a second bulge.

As the Earth turns, a coast meets both bulges once a day, and so it has high water twice.
"""
EDITS = (
    ("In order to understand", "To understand", "brevity", "“In order to” says no more than “to”."),
    ("it is very very important to look", "look", "brevity", "Say it once, and say it plainly."),
    (
        "there is a second bulge.",
        "there is a second bulge, as the Moon pulls the Earth itself away from the water behind it.",
        "evidence",
        "The claim is the point of the text, and it stands there without a reason.",
    ),
    ("it has high water twice.", "it has high water about every twelve and a half hours.", "clarity", "Give the time."),
)
LONG = "a-critic-with-a-name-that-somebody-has-made-much-longer-than-anybody-would-want-to-read-in-a-table"


def spend(context, model, tokens, seconds=1.4):
    price = {"large-3": 9e-6, "small-3": 6e-7}[model]
    parts = {"input_tokens": tokens * 3 // 4, "output_tokens": tokens - tokens * 3 // 4}
    used = Usage(tokens=tokens, cost=tokens * price, currency="USD", calls=1, seconds=seconds, model=model, **parts)
    context.used(used)


async def held():
    """Returns once nobody holds the office's critics."""
    while (HERE / "hold").exists():  # noqa: ASYNC110 - what holds them is another process
        await asyncio.sleep(0.05)


@generator
def write(brief, context):
    spend(context, "large-3", 1_900 + 13 * len(brief.text), 9.2)
    if "潮" in brief.text:
        return "潮の満ち引きは、月と太陽の引力によって起こる。\n\nとてもとても大きな力である。\n"
    return TIDES


def judged(draft, share):
    there = [each for each in EDITS if each[0] in draft.text]
    issues = tuple(
        Issue(said, quote=old, replacement=new, criterion=name, severity="error" if name == "evidence" else "warning")
        for old, new, name, said in there
    )
    marks = {name: max(0.35, 1 - 0.22 * sum(each[2] == name for each in there) - share) for name in CRITERIA}
    return issues, marks


@critic(criteria=CRITERIA)
async def editor(draft, context):
    await held()
    spend(context, "large-3", 2_400, 4.8)
    issues, marks = judged(draft, 0.02)
    strengths = ("The order of the argument is right.", "Short paragraphs.")
    return Critique(
        round(sum(marks.values()) / 3, 3),
        strengths,
        criteria=marks,
        issues=issues,
        suggestions=("give one real coast",),
    )


@critic
def facts(draft, context):
    spend(context, "small-3", 3_100, 2.1)
    missing = "second bulge." in draft.text
    return Critique(0.62 if missing else 0.97, errors=("the far side is not explained",) if missing else ())


@critic(name=LONG)
def pedant(draft, context):
    spend(context, "small-3", 900, 0.8)
    return Critique(min(0.96, 0.55 + 0.11 * draft.version), weaknesses=("the title could be shorter",))


@critic
def unsure(draft, context):
    spend(context, "small-3", 500, 0.4)
    return Critique((0.42, 0.66, 0.58, 0.7, 0.61)[draft.version % 5], suggestions=("be bolder", "be calmer"))


@critic(name="slow")
def slow(draft, context):
    spend(context, "small-3", 700, 0.9)
    return Critique(min(1.0, draft.version / 50), suggestions=(f"look at sentence {draft.version}",))


@critic
def busy(draft):
    raise StepError("the model is busy (503), come again later: " + "queue full; " * 12)


@refiner
def revise(draft, critique, history, context):
    spend(context, "large-3", 2_100, 6.4)
    text, changes = draft.text, []
    for old, new, _, said in EDITS:
        if old in text and len(changes) < 2:
            text = text.replace(old, new)
            changes.append(said)
    text += "".join(f"\n{each}\n" for each in history.advice)
    return Revision(text if text != draft.text else text.rstrip() + " \n", changes=tuple(changes) or ("a line break",))


@publisher
def publish(draft):
    return f"https://example.org/texts/{draft.sha256[:8]}"


def loop(name, until, most, *body):
    return Workflow(name).start_with(write).repeat_until(until, max_iterations=most, name="Refinement", body=[*body])


PANEL = parallel("Panel", step(editor), step(facts), step(pedant), combine="mean")
essay = loop("essay", score >= 0.9, 5, PANEL, revise).finally_(publish).budget(cost=0.5, tokens=90_000)
signed = loop("press-release", score >= 0.85, 4, editor, revise)
signed = signed.then(approve("Sign-off", approvers=["ann", "the legal department of the whole company"])).finally_(
    publish
)
doubted = loop("slogan", score >= 0.9, 4, unsure, revise).finally_(publish)
patient = loop("handbook", score >= 1, 50, slow, revise).finally_(publish)
contract = Workflow("contract").start_with(write).then(step("legal", role="critic"))
broken = loop("newsletter", score >= 0.9, 3, step(busy, retry=Retry(attempts=2, initial=0.01)), revise).finally_(
    publish
)


def nested(depth):
    body = [unsure, revise] if depth == 1 else [nested(depth - 1)]
    return repeat(f"Level{9 - depth}", until="score >= 0.6", max_iterations=2, body=body)


book = Workflow("book").start_with(write).then(nested(8)).finally_(publish)
