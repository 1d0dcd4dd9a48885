"""Faults of the contents of drafts of several files."""

from tests.app.testing.faults import Fault

CONTENTS = "events.store.folder_contents"

FILING = [
    Fault(
        "contents left out that an append brought which was not recorded",
        CONTENTS,
        "WrittenContents._before",
        "(known.version, known.hash) == (append.expected_version, append.previous)",
        "known.version >= append.expected_version",
        186,
    ),
    Fault(
        "contents of earlier events not looked for where some are known",
        CONTENTS,
        "ReadContents.restored",
        "if not named <= contents.keys():",
        "if len(contents) == 0:",
        65,
    ),
]
