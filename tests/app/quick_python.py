"""A Python whose pytest begins within a tenth of the time: it loads no plugins of what else is installed here.

That the pytest of users loads theirs is tested in `test_pytest`.
"""

from __future__ import annotations

import sys
from pathlib import Path


def quick_python(folder: Path) -> str:
    """The path of one, in this folder; for `sys.executable` of whoever runs tests."""
    python = folder / "quick-python"
    python.write_text(f'#!/bin/sh\nPYTEST_DISABLE_PLUGIN_AUTOLOAD=1 exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)
