from __future__ import annotations

import argparse
import sys
import time

from tests.sources.stage import PROJECTS, Played, play_all


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sources", description="Play the use cases of the sources.")
    parser.add_argument("projects", nargs="*", metavar="PROJECT", help=f"some of: {', '.join(PROJECTS)}")
    parser.add_argument("--only", default="", help="only cases whose row and text match this regular expression")
    asked = parser.parse_args()
    started = time.monotonic()
    results: list[Played] = []
    for result in play_all(asked.projects or list(PROJECTS), only=asked.only):
        results.append(result)
        print(result.line(), flush=True)
    failed = [result for result in results if not result.ok]
    for result in failed:
        print(f"\n{result.line()}\n{result.why}")
    print(f"\n{len(results) - len(failed)} passed, {len(failed)} failed, {time.monotonic() - started:.0f} s")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
