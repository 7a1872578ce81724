"""`python -m tests.vectors dst FILE`: play a file of cases, print each failure and a last line of counts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.vectors import dst

KINDS: dict[str, Callable[[dict[str, Any]], str | None]] = {"dst": dst.failure}


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in KINDS:
        print(f"usage: python -m tests.vectors {{{','.join(KINDS)}}} FILE", file=sys.stderr)
        return 2
    failure, cases = KINDS[arguments[0]], json.loads(Path(arguments[1]).read_text())
    failures = [(case["id"], why) for case in cases if (why := failure(case)) is not None]
    for name, why in failures:
        print(f"FAILED {name}: {why}")
    print(f"{len(cases) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
