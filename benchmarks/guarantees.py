"""What the log's guarantees cost: `python benchmarks/guarantees.py [--turns 7] [what loop.py takes]`.

Runs the loop benchmark on SQLite in turn without two guarantees and with them, as `compare.py` does with two checkouts:
the rules of the file itself (an event follows its predecessor, its id is there once) and the proof, before an event is
stored, that its bytes can be read again. The column `other` is without them, and a difference counts as there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from unittest.mock import patch

import loop
from compare import Turn, compared

from redraft.events.messages import codec
from redraft.events.sqlite import recorder, schema

WITHOUT = "--without"


def run_without(rest: Sequence[str]) -> None:
    """Runs the loop benchmark without the guarantees, in this process. Raises SystemExit if they are not where assumed.

    A store without the rules is one of an earlier release: it opens, and gets them when it is opened again.
    """
    if vars(recorder).get("rules_of") is not schema.rules_of:
        raise SystemExit("the file's rules are made elsewhere by now; mend benchmarks/guarantees.py")
    with (
        patch.object(recorder, "rules_of", lambda _: {}),
        patch.object(recorder, "add_rules", lambda *_: None),
        patch.object(codec, "is_surely_readable", lambda _: True),
        patch.object(sys, "argv", ["loop.py", *rest]),
    ):
        loop.main()


def measured(rest: Sequence[str]) -> Turn:
    """Runs the loop benchmark once in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *rest], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the loop benchmark failed: {done.stderr[-1000:]}")
    found = json.loads(done.stdout)
    return {what: found[what] for what in ("cpu_ms_per_loop", "loops_per_s")}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--turns", type=int, default=7, help="how often each is run (default 7)")
    options.add_argument("--json", action="store_true", help="run the loop benchmark once, and print its figures")
    options.add_argument(WITHOUT, action="store_true", help="with --json: without the guarantees")
    given, rest = options.parse_known_args()
    if not given.json:
        turns = [(measured(["--json", WITHOUT, *rest]), measured(["--json", *rest])) for _ in range(given.turns)]
        print("\n".join(compared([without for without, _ in turns], [with_them for _, with_them in turns])))
    elif given.without:
        run_without(["--json", *rest])
    else:
        with patch.object(sys, "argv", ["loop.py", "--json", *rest]):
            loop.main()


if __name__ == "__main__":
    main()
