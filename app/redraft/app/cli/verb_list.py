"""The verbs of `redraft` in groups: what each does, in a line, and where it is, without importing any of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Verb(NamedTuple):
    """A verb: what it does, the module below `cli` and the name of its function or typer there, and of its examples.

    A typer has examples of its own.
    """

    summary: str
    module: str
    function: str = "APP"
    examples: str = ""


GROUPS: Final[Mapping[str, Mapping[str, Verb]]] = {
    "Refine": {
        "run": Verb("Refine a text in this process, from brief to result.", "verbs.refining.run", "run", "RUN"),
        "files": Verb("Refine files where they lie; fail below a score.", "verbs.refining.files", "files", "EXAMPLES"),
        "simulate": Verb(
            "Rehearse a plan: outcomes, scores and cost.", "verbs.refining.simulate", "simulate", "EXAMPLE"
        ),
        "plan": Verb("Print a workflow as YAML or as a diagram.", "verbs.refining.plan", "plan", "PLAN_EXAMPLE"),
    },
    "Look at runs": {
        "list": Verb("List the runs, the newest first.", "verbs.reading.list_runs", "list_", "LIST"),
        "show": Verb("Show a run as a tree, with scores and times.", "verbs.reading.show", "show", "SHOW"),
        "diff": Verb("Show what changed between two drafts.", "verbs.reading.show", "diff", "DIFF"),
        "events": Verb("Print what happened, in the order of the log.", "verbs.reading.events", "events", "EXAMPLE"),
        "stats": Verb("Show figures over runs: actors, critics, scores.", "verbs.reading.stats_over_runs"),
        "audit": Verb("Print a run's whole story, verify it, export it.", "verbs.reading.audit", "audit", "EXAMPLE"),
    },
    "Steer a run": {
        "approve": Verb("Approve the draft that a run waits with.", "verbs.steer", "approve", "APPROVE"),
        "reject": Verb("Reject the draft that a run waits with.", "verbs.steer", "reject", "REJECT"),
        "edit": Verb("Give a run a draft of your own.", "verbs.steer", "edit", "EDIT"),
        "guide": Verb("Give advice to the next refinement.", "verbs.steer", "guide", "GUIDE"),
        "limits": Verb("Change when a loop of a run ends.", "verbs.steer", "limits", "LIMITS"),
        "pause": Verb("Pause a run.", "verbs.steer", "pause", "PAUSE"),
        "resume": Verb("Go on with a run that is paused.", "verbs.steer", "resume", "RESUME"),
        "cancel": Verb("End a run with its best draft so far.", "verbs.steer", "cancel", "CANCEL"),
        "lessons": Verb("Strike lessons out that later runs should not be given.", "verbs.lessons"),
        "quarantine": Verb("Set a run aside whose record is wrong.", "verbs.steer", "quarantine", "QUARANTINE"),
    },
    "Try another way": {
        "whatif": Verb(
            "Decide a recorded run again, under another policy.", "verbs.reading.whatif", "whatif", "EXAMPLE"
        ),
        "fork": Verb("Start a new run at an event of another.", "verbs.refining.run", "fork", "FORK"),
    },
    "Deploy": {
        "up": Verb("Run a coordinator and workers on this machine.", "verbs.deploying.processes", "up", "UP"),
        "coordinator": Verb(
            "Decide for every run, and record it.", "verbs.deploying.processes", "coordinator", "COORDINATOR"
        ),
        "serve": Verb("Answer over HTTP; with no broker, run everything.", "verbs.deploying.serve", "serve", "SERVE"),
        "token": Verb("Make and revoke the tokens of `serve`.", "verbs.deploying.token"),
        "worker": Verb("Serve actors: take requests, work, report.", "verbs.deploying.processes", "worker", "WORKER"),
        "submit": Verb("Send a run to a deployment.", "verbs.refining.run", "submit", "SUBMIT"),
        "mcp": Verb("Serve assistants: refine, watch, steer, prove.", "verbs.deploying.mcp", "mcp", "EXAMPLES"),
        "doctor": Verb("Check store, runs, broker, versions and disk.", "doctor.doctor", "doctor", "EXAMPLE"),
        "dead-letters": Verb("Handle messages that nobody could work on.", "verbs.deploying.dead_letters"),
        "contract": Verb(
            "Print the contract, or try a worker against it.", "verbs.refining.plan", "contract", "CONTRACT_EXAMPLE"
        ),
        "trust": Verb("Trust a folder's redraft.toml as it is now.", "verbs.refining.plan", "trust", "TRUST_EXAMPLE"),
    },
    "Follow events": {
        "subscribe": Verb("Call a function with each event.", "verbs.following.subscribe", "subscribe", "SUBSCRIBE"),
        "webhook": Verb("Send each event to a URL, signed.", "verbs.following.subscribe", "webhook", "WEBHOOK"),
        "subscriptions": Verb("List, move and remove named subscriptions.", "verbs.following.subscriptions"),
        "projections": Verb("List, show and follow read models.", "verbs.following.projections"),
        "rebuild": Verb("Rebuild the read models from the log.", "verbs.following.rebuild", "rebuild", "REBUILD"),
    },
    "Keep the record": {
        "export": Verb("Write runs to an archive.", "verbs.keeping.archive", "export", "EXPORT"),
        "import": Verb("Import the runs of an archive.", "verbs.keeping.archive", "import_", "IMPORT"),
        "erase": Verb("Make the texts of a run unreadable for good.", "verbs.keeping.encryption", "erase", "EXAMPLE"),
        "key": Verb("Make keys that encrypt texts or sign checkpoints.", "verbs.keeping.encryption"),
    },
}
"""The groups in the order of `redraft --help`."""

VERBS: Final[Mapping[str, Verb]] = {name: verb for group in GROUPS.values() for name, verb in group.items()}
