"""`python -m tests.vectors KIND FILE`: play a file of cases, print each failure and a last line of counts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.vectors import dst, eventbridge_patterns, schema_compat, ssrf, webhooks

KINDS: dict[str, ModuleType] = {
    "dst": dst,
    "schema_compat": schema_compat,
    "eventbridge_patterns": eventbridge_patterns,
    "webhooks": webhooks,
    "ssrf": ssrf,
}


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in KINDS:
        print(f"usage: python -m tests.vectors {{{','.join(KINDS)}}} FILE", file=sys.stderr)
        return 2
    kind = KINDS[arguments[0]]
    try:
        cases = read(kind, Path(arguments[1]))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    failures = [(case["id"], why) for case in cases if (why := kind.failure(case)) is not None]
    for name, why in failures:
        print(f"FAILED {name}: {why}")
    print(f"{len(cases) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


def read(kind: ModuleType, file: Path) -> list[dict[str, Any]]:
    """The cases of a file; ValueError where there are none: nothing was played, and that is no success."""
    try:
        content = json.loads(file.read_text())
    except OSError as error:
        raise ValueError(f"{file} cannot be read ({error.strerror}); name a file of cases.") from None
    except ValueError as error:
        raise ValueError(f"{file} is not JSON ({error}).") from None
    if hasattr(kind, "cases"):
        cases = list(kind.cases(content)) if isinstance(content, dict) else []
    else:
        cases = content.get("cases") if isinstance(content, dict) else content
    if not cases or not isinstance(cases, list):
        raise ValueError(f"{file} holds no cases of {kind.__name__.rpartition('.')[2]}; is it a file of another kind?")
    return cases


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
