"""Faults of loops' ends."""

from tests.app.testing.faults import Fault

ENDING = [
    Fault(
        "published though its loop was to fail",
        "actors.deciding.interpreter",
        "_end_loop",
        'if top.node is not None and ending_of(top.node, why.outcome) == "fail":',
        "if False:",
        133,
    ),
    Fault(
        "people not asked at the end of a loop",
        "actors.deciding.closing",
        "question_due",
        'return node if ending_of(loop, top.ended) == "ask" else None',
        "return None",
        15,
    ),
    Fault(
        "people asked about a draft that met the condition",
        "actors.deciding.closing",
        "question_due",
        'return node if ending_of(loop, top.ended) == "ask" else None',
        "return node",
        13,
    ),
    Fault(
        "outer loop ended before its critics judged what people approved",
        "actors.deciding.steering",
        "_grant",
        '"output" if of_loop else "approved"',
        '"approved"',
        348,
    ),
    Fault(
        "run ended by an inner loop that is not told to fail",
        "actors.plans.endings",
        "ending_of",
        "return loop.on_exhausted",
        'return "fail"',
        0,
    ),
]
