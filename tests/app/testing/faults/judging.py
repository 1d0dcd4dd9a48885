"""Faults of what critics judge by criteria, and of what they count."""

from tests.app.testing.faults import Fault

JUDGING = [
    Fault(
        "share taken for a number on the scale",
        "actors.conditions.reading",
        "compare",
        "share if scale is None else on_scale(share, scale)",
        "share",
        17,
    ),
    Fault(
        "criteria of a panel joined as if all counted least",
        "actors.deciding.judgement",
        "_join_marks",
        "_join_scores(values, combine, theirs, vetoed=vetoed)",
        "min(values)",
        78,
    ),
    Fault(
        "one criterion's best scores mixed with all",
        "actors.deciding.candidates",
        "_with_scores",
        "judged.judgement.mark(name)",
        "judged.judgement.score",
        370,
    ),
    Fault(
        "what nobody counted taken for nothing",
        "actors.deciding.facts",
        "_is_known",
        "return _counted(atom, facts) is not None",
        "return True",
        28,
    ),
    Fault(
        "the lowest criterion taken for known while one is not",
        "actors.deciding.judgement",
        "Judgement.knows",
        "if name == LOWEST and self.unheard:",
        "if False:",
        249,
    ),
    Fault(
        "change since the first draft instead of the one before",
        "actors.deciding.candidates",
        "judged_before",
        "reversed(frame.judged)",
        "frame.judged",
        104,
    ),
    Fault(
        "panel forgets what its critics counted",
        "actors.deciding.judgement",
        "join",
        "return replace(joined, measures=counted)",
        "return joined",
        102,
    ),
]
