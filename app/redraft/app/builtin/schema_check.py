"""Run as a program: judges a JSON text by a JSON Schema. Both come as one JSON object on standard input.

The exit code is 0 when it fits, 1 with a fault a line when it does not, 3 with a line when the schema is at fault.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Final

from jsonschema import SchemaError
from jsonschema.exceptions import ValidationError
from jsonschema.validators import Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

MOST: Final = 100
"""How many faults are told."""


def main() -> int:
    given: Mapping[str, str] = json.load(sys.stdin.buffer)
    try:
        schema = json.loads(given["schema"])
        kind = validator_for(schema, default=Draft202012Validator)
        kind.check_schema(schema)
    except (ValueError, RecursionError) as error:
        return _said(f"the schema is no JSON: {error}; mend it", 3)
    except SchemaError as error:
        return _said(f"the schema is no JSON Schema: {error.message} at {error.json_path}; mend it", 3)
    try:
        text = json.loads(given["draft"], parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return _said(f"it is no JSON: {error}", 1)
    try:
        faults = kind(schema, registry=Registry()).iter_errors(text)
        lines = [_line(fault) for _, fault in zip(range(MOST), faults, strict=False)]
    except Unresolvable as error:
        return _said(f"the schema refers to what is not in it: {error}; put it in", 3)
    except RecursionError:
        return _said("it is nested too deeply", 1)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if lines else 0


def _line(fault: ValidationError) -> str:
    message = fault.message if len(fault.message) < 400 else f"{fault.message[:200]} … {fault.message[-150:]}"
    return f"{fault.json_path}: {' '.join(message.split())}"


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number in JSON")


def _said(line: str, code: int) -> int:
    sys.stdout.write(f"{' '.join(line.split())}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
