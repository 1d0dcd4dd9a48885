"""The workflow `article`: a model writes for a brief, judges what it wrote, and improves it until it is good."""

from __future__ import annotations

from typing import Literal

from redraft.events.conditions import plateau, score
from redraft.events.plan import Plan, Repeat, Step


def article_plan(
    max_iterations: int = 5, threshold: float = 0.8, publish: Literal["file", "stdout"] = "stdout"
) -> Plan:
    """The plan: generate, then critique and refine until good or no longer better, then publish.

    Good means a score of at least `threshold` (0..1). `max_iterations` is at least 1. Every step but the last asks a
    model: that of its option `model`, else the worker's own.
    """
    loop = Repeat(
        name="Refinement",
        until=(score >= threshold) | plateau(gain=0.01, over=2),
        max_iterations=max_iterations,
        body=(Step("critic", "llm", "critique"), Step("refiner", "llm", "refine")),
    )
    return Plan("article", (Step("generator", "llm", "generate"), loop, Step("publisher", publish, "publish")))
