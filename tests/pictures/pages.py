"""The pages that pictures are taken of, and that are looked at for what keeps people from using them."""

from __future__ import annotations

from collections.abc import Mapping


def addresses(runs: Mapping[str, str]) -> dict[str, str]:
    """The addresses of the pages, by the names of their pictures."""
    shown = {f"run-{name.replace(' ', '-')}": f"/runs/{run}" for name, run in runs.items()}
    essay, release = runs["essay"], runs["press-release"]
    return {
        "runs": "/runs",
        "runs-filtered": "/runs?tag=website&status=ended&sort=cost",
        "runs-none": "/runs?text=nothing+of+this",
        **shown,
        "run-past": f"/runs/{essay}?at=9",
        "draft": f"/runs/{essay}/drafts/1",
        "draft-rendered": f"/runs/{essay}/drafts/2?form=rendered",
        "draft-waits": f"/runs/{release}/drafts/3",
        "draft-japanese": f"/runs/{runs['japanese']}/drafts/1",
        "diff": f"/runs/{essay}/diff?a=1&b=3",
        "whatif": "/whatif?workflow=essay&at=80",
        "issues": "/issues",
        "critics": "/critics",
        "costs": "/costs?by=model",
        "actors": "/actors",
        "dead-letters": "/dead-letters",
        "subscriptions": "/subscriptions",
        "events": f"/events?run={essay}",
        "chain": "/chain",
        "compare": f"/compare?a={essay}&b={runs['slogan']}",
        "compare-none": "/compare",
        "search": "/search?words=tides",
        "search-none": "/search?words=nowhere",
        "problem": "/runs/nothing-like-this",
    }
