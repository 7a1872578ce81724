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
    kind, content = KINDS[arguments[0]], json.loads(Path(arguments[1]).read_text())
    cases = list(kind.cases(content)) if hasattr(kind, "cases") else listed(content)
    failures = [(case["id"], why) for case in cases if (why := kind.failure(case)) is not None]
    for name, why in failures:
        print(f"FAILED {name}: {why}")
    print(f"{len(cases) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


def listed(content: Any) -> list[dict[str, Any]]:
    return content["cases"] if isinstance(content, dict) else content


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
