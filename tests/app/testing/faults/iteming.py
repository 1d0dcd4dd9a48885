"""Faults of items that runs of their own work on."""

from tests.app.testing.faults import Fault

ITEMS = "actors.deciding.items"
RUNS = "actors.runtime.relaying.item_runs"

ITEMING = [
    Fault(
        "drafts of items in the order in which they came",
        ITEMS,
        "end_item",
        "made[number] for number in sorted(made)",
        "each for each in made.values()",
        20,
    ),
    Fault(
        "more items at once than the plan allows",
        ITEMS,
        "request_next_item",
        "or len(state.open) >= node.concurrency",
        "or len(state.open) > node.concurrency",
        39,
    ),
    Fault(
        "budget divided though others have their part of it",
        ITEMS,
        "with_slice",
        "left = limit - getattr(used, quantity) - getattr(reserved, quantity)",
        "left = limit - getattr(used, quantity)",
        40,
    ),
    Fault(
        "item begun with another item",
        RUNS,
        "_start",
        "items[number - 1]",
        "items[-1]",
        20,
    ),
    Fault(
        "usage of an item forgotten",
        "actors.deciding.item_result",
        "result_of",
        "made.media_type, state.usage)",
        "made.media_type)",
        7,
    ),
    Fault(
        "draft of an item taken though its run was to fail",
        "actors.deciding.item_result",
        "_gives_draft",
        "return through and len(state.frames) == 1",
        "return True",
        154,
    ),
    Fault(
        "items go on though the run around them has ended",
        RUNS,
        "_commands",
        "case StepFailed() | BudgetReached() | RunEnded() | RunQuarantined() if path not in state.open:",
        "case StepFailed() if path not in asked:",
        119,
        also=(RUNS, "_missed", "elif of.path not in outer.open:", "elif outer.version < 0:"),
    ),
    Fault(
        "items stay paused though the run around them goes on",
        RUNS,
        "_commands",
        "case RunPaused() | RunResumed():",
        "case RunPaused():",
        392,
        also=(RUNS, "_missed", "elif state.paused:", "elif outer.version < 0:"),
    ),
]
