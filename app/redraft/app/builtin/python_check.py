"""Run as a program: compiles what comes on standard input, without running it; exit code 1 and the fault if it cannot
be."""

from __future__ import annotations

import sys
import warnings


def main() -> int:
    warnings.simplefilter("ignore")
    try:
        compile(sys.stdin.buffer.read(), "draft.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        sys.stdout.write(f"line {error.lineno or 1}: {error.msg}\n")
        return 1
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
