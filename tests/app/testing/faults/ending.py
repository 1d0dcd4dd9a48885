"""Faults of loops' ends."""

from tests.app.testing.faults import Fault

ENDING = [
    Fault(
        "published though its loop was to fail",
        "actors.deciding.interpreter",
        "_end_loop",
        'if top.node is not None and ending_of(top.node, why.outcome) == "fail":',
        "if False:",
        136,
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
        6,
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
    Fault(
        "failures left to refinements without an end",
        "actors.deciding.excusing",
        "is_excused",
        "return follows and top.failures < loop.max_failures",
        "return follows",
        270,
    ),
    Fault(
        "error of a failed step that no refinement is told of",
        "actors.deciding.excusing",
        "excuse",
        "untold = (*state.untold, state.version)",
        "untold = state.untold",
        6,
    ),
    Fault(
        "refinement goes back from a draft on which a step failed",
        "actors.deciding.candidates",
        "draft_to_work_on",
        "or best.judgement is None or current.judgement.failed:",
        "or best.judgement is None:",
        270,
    ),
    Fault(
        "published without the word of people who are asked at a loop's end",
        "actors.deciding.candidates",
        "draft_to_salvage",
        " or any(map(question_due, state.frames))",
        "",
        13,
    ),
]
