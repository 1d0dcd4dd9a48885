"""`python -m redraft`, the same as the command `redraft`."""

from __future__ import annotations

import sys

from redraft.app.cli import main

sys.exit(main())
