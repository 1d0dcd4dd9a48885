"""Prints the findings of the check of records against their plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.output import print_line
from redraft.app.record.auditing.record_faults import is_faulty
from redraft.projections.display import counted, plain, quoted

if TYPE_CHECKING:
    from redraft.projections.record_check import Checked

MOST: Final = 20
"""The number of findings of one run that are printed; `--json` has them all."""


def report_record(record: Checked | None) -> None:
    """Tells each finding and the remedy; of a run that was set aside only how many there are."""
    if record is None or not record.findings:
        return
    found = counted(len(record.findings), "finding")
    if record.set_aside:
        print_line(
            f"run {record.run} was set aside; {found} in its record, the first: {plain(record.findings[0].message)}"
        )
        return
    for finding in record.findings[:MOST]:
        say(finding.message)
    if len(record.findings) > MOST:
        say(f"run {record.run}: and {len(record.findings) - MOST:,} findings more")
    if is_faulty(record):
        remedy = f"redraft quarantine {quoted(record.run)} --reason …"
        say(f"run {record.run}: {found}; set it aside, and the others go on: {remedy}")


def document_of(records: Sequence[Checked], *, verify: bool) -> dict[str, object]:
    """The findings for --json; null where nobody looked."""
    if not verify:
        return {"findings": None, "set_aside": None}
    return {
        "findings": [finding for record in records if is_faulty(record) for finding in record.findings],
        "set_aside": {record.run: record.findings for record in records if record.set_aside},
    }
