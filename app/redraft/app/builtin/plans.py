"""Workflows that come with Redraft as plans: `code`, and methods that were published, each with its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from redraft.actors.workflow.roles import generator
from redraft.app.builtin.support.options import RELEASE
from redraft.events.messages.conditions import Condition, errors, plateau, score
from redraft.events.messages.content import Brief, Draft, digest
from redraft.events.messages.plan import Option, Parallel, Plan, Repeat, Step

PublishTarget: TypeAlias = Literal["file", "stdout"]


@generator(name="source", version=RELEASE)
def source(brief: Brief) -> Draft:
    """The brief's own text and media type as draft 1; nothing is added, changed or left out."""
    return Draft(1, brief.text, digest(brief.text), brief.media_type)


def code_plan(
    tests: Sequence[str] = (),
    max_iterations: int = 5,
    threshold: float | None = None,
    publish: PublishTarget = "file",
    *,
    model: bool = False,
    folder: str = "",
    format: bool = False,  # noqa: A002 - the name of the refiner's option
) -> Plan:
    """The plan: the source as it is, then critique and refine until good or no longer better, then publish.

    Gates hold back a draft that does not compile or lacks a public name and, with `tests`, one with which a test fails
    that passed before. Good means no errors, or a score of at least `threshold` (0..1) when that is given. With
    `tests` (files or folders) both critics judge each draft, and the lower score counts; `folder` is where their paths
    begin, by default the folder that the worker was started in. With `model` a model mends what they find; with
    `format` ruff also formats. `max_iterations` is at least 1.
    """
    formatting: dict[str, Option] = {"format": True} if format else {}
    refine = (
        _llm("refiner", "refine", prompt="code") if model else Step("refiner", "ruff-fix", "refine", options=formatting)
    )
    good: Condition = errors == 0 if threshold is None else score >= threshold
    loop = Repeat(
        name="Refinement",
        until=good | plateau(gain=0.001, over=3 if model else 2),
        max_iterations=max_iterations,
        body=(*_build_checks(tests, folder), refine),
    )
    return Plan("code", (Step("generator", "source", "generate"), loop, Step("publisher", publish, "publish")))


def _build_checks(tests: Sequence[str], folder: str) -> tuple[Step | Parallel, ...]:
    names = Step("critic", "public-names", "names", gate=True)
    critique = Step("critic", "ruff", "critique")
    if not tests:
        return names, critique
    place: dict[str, Option] = {"folder": folder} if folder else {}
    kept = Step("critic", "pytest", "kept-tests", gate=True, options={"tests": list(tests), **place, "kept": True})
    tested = Step("critic", "pytest", "tests", options={"tests": list(tests), **place})
    return names, kept, Parallel("checks", (critique, tested))


def article_plan(max_iterations: int = 5, threshold: float = 0.8, publish: PublishTarget = "stdout") -> Plan:
    """`article`: generate, then critique and refine until the score is at least `threshold` (0..1) or rises no more.

    After Self-Refine (Madaan et al., 2023, https://arxiv.org/abs/2303.17651). `max_iterations` is at least 1. Here and
    below, a step asks the model of its option `model`, else the worker's own.
    """
    loop = Repeat(
        "Refinement",
        (score >= threshold) | plateau(gain=0.01, over=2),
        max_iterations,
        (_llm("critic", "critique"), _llm("refiner", "refine")),
    )
    return Plan("article", (_llm("generator", "generate"), loop, Step("publisher", publish, "publish")))


def verification_plan(max_iterations: int = 3, questions: int = 6, publish: PublishTarget = "stdout") -> Plan:
    """`chain-of-verification`: a draft, questions made from it, answered without it, and a draft revised by that.

    After Chain-of-Verification (Dhuliawala et al., 2023, https://arxiv.org/abs/2309.11495), its factored form with a
    comparison; here it goes on until every answer agrees, `max_iterations` times at most.
    """
    loop = Repeat(
        "Verification",
        errors == 0,
        max_iterations,
        (Step("critic", "verify", "verify", options={"questions": questions}), _llm("refiner", "revise")),
    )
    return Plan("chain-of-verification", (_llm("generator", "draft"), loop, Step("publisher", publish, "publish")))


def revision_plan(max_iterations: int = 3, threshold: float = 0.8, publish: PublishTarget = "stdout") -> Plan:
    """`draft-critique-revise-verify`: a draft is judged once, and revised and verified until nothing is wrong.

    Draft, critique and revision as in Constitutional AI (Bai et al., 2022, https://arxiv.org/abs/2212.08073), with a
    critic of its own prompt that verifies each revision. It is good with a score of at least `threshold` (0..1) and no
    errors.
    """
    loop = Repeat(
        "Revision",
        (score >= threshold) & (errors == 0) | plateau(gain=0.01, over=2),
        max_iterations,
        (_llm("refiner", "revise"), _llm("critic", "verify", prompt="verify")),
    )
    steps = (_llm("generator", "draft"), _llm("critic", "critique"), loop, Step("publisher", publish, "publish"))
    return Plan("draft-critique-revise-verify", steps)


def consistency_plan(samples: int = 5, temperature: float = 0.7, publish: PublishTarget = "stdout") -> Plan:
    """`self-consistency`: several answers to one question, of which the one that most agree on is published.

    After self-consistency (Wang et al., 2022, https://arxiv.org/abs/2203.11171), sampled at a `temperature` of 0.5
    to 0.7. `samples` is at least 2; all of them are in the history, each with the share that agrees with it.
    """
    answers = tuple(
        _llm("generator", f"sample-{number}", prompt="reasoning", temperature=temperature)
        for number in range(1, samples + 1)
    )
    judge = Step("critic", "agreement", "agreement")
    parallel = Parallel("samples", answers, judge=judge)
    return Plan("self-consistency", (parallel, Step("publisher", publish, "publish")))


def _llm(role: Literal["generator", "critic", "refiner"], name: str, **options: Option) -> Step:
    return Step(role, "llm", name, options=options)
