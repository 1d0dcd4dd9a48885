"""Faults of runs' state, and of free steps."""

from tests.app.testing.faults import Fault

STATING = [
    Fault(
        "second of two in parallel writes too",
        "actors.deciding.run_values",
        "why_refused",
        "if parallel is not None and parallel.wrote.get(name, path) != path:",
        "if False:",
        71,
    ),
    Fault(
        "value written that the step does not declare",
        "actors.deciding.run_values",
        "why_refused",
        "if declared and name not in declared:",
        "if False:",
        71,
    ),
    Fault(
        "loop ended by a value about an earlier draft",
        "actors.deciding.run_values",
        "visible_values",
        "if name not in stale} if stale else state.values",
        "} if stale else state.values",
        125,
    ),
    Fault(
        "value of tests that stand before the refiner",
        "actors.deciding.run_values",
        "visible_values",
        "if writer in coming or state.looked.get(writer) != current:",
        "if writer in coming:",
        20,
    ),
    Fault(
        "state lost when a run is folded after a restart",
        "actors.runtime.coordinating.aggregates",
        "aggregate_of",
        "made.advance(fold(event.data for event in events), last)",
        "made.advance(msgspec.structs.replace(fold(event.data for event in events), values={}), last)",
        57,
    ),
    Fault(
        "fork goes on without its changes",
        "actors.deciding.forking",
        "_changes_and_repeats",
        "if start.state:",
        "if False:",
        57,
    ),
    Fault(
        "asked without the values that the run begins with",
        "actors.runtime.relaying.state_history",
        "StateHistory.add",
        "return self._change(first_values(data.plan, data.brief))",
        "return 0",
        14,
    ),
    Fault(
        "last draft that no free step has looked at",
        "actors.deciding.interpreter",
        "_close_or_end_loop",
        "if nodes_to_close(state, top, loop):",
        "if needs_judges(state, loop) and nodes_to_close(state, top, loop):",
        15,
    ),
    Fault(
        "loop ended before its critics have judged",
        "actors.deciding.state",
        "waits_for_own_critics",
        "return bool(top.verdicts) or (needs_judges(state, loop) and not judged)",
        "return False",
        120,
    ),
]
