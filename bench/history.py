"""What earlier runs measured, one line of JSON each in bench/history.jsonl, and whether a ratio has fallen since.

Add a line with `make bench ARGS='--record "what changed"'` for each landed change of the worker or the store.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
HOT_CODE = ("src/duebox/worker", "src/duebox/store", "src/duebox/schedules/fire.py", "src/duebox/events/emit.py")
WARN_BELOW = 0.75
FAIL_BELOW = 0.5


def lines(history: Path) -> list[dict[str, Any]]:
    if not history.exists():
        return []
    return [json.loads(line) for line in history.read_text().splitlines() if line.strip()]


def append(line: Mapping[str, Any], history: Path) -> None:
    with history.open("a") as file:
        file.write(json.dumps(line) + "\n")


def stamp() -> dict[str, Any]:
    """The commit that was measured, when, and the machine."""
    return {"commit": commit(), "date": datetime.now(UTC).date().isoformat(), "machine": machine()}


def commit() -> str:
    """A plus sign behind it: the working tree has changes that are not committed."""
    head = _git("rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    return f"{head}+" if _git("status", "--porcelain", "--", "src", "bench") else head


def machine() -> dict[str, Any]:
    from django.db import connection

    connection.ensure_connection()
    server = connection.connection.info.server_version
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "postgresql": f"{server // 10000}.{server % 10000}",
    }


def _processor() -> str:
    try:
        found = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    except OSError:
        found = []
    return found[0].partition(":")[2].strip() if found else platform.processor() or "unknown"


def changed_since(line: Mapping[str, Any]) -> list[str]:
    """The commits that changed the hot code after the one that a line was measured at."""
    found = _git("log", "--no-merges", "--format=%h %s", f"{line['commit'].rstrip('+')}..HEAD", "--", *HOT_CODE)
    return found.splitlines()


def _git(*words: str) -> str:
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def fallen(ratios: Mapping[str, float], last: Mapping[str, float], below: float) -> list[str]:
    """The ratios that are below such a share of what they were."""
    return [name for name, before in last.items() if name in ratios and ratios[name] < below * before]


def compare(
    ratios: Mapping[str, float], last: Mapping[str, float], again: Callable[[str], Mapping[str, float]]
) -> tuple[list[str], list[str]]:
    """Warnings and failures: a ratio that has fallen by a quarter, and one whose median of three has fallen by half.

    `again` measures the path of a ratio once more; only what seems to have fallen by half is measured three times.
    """
    found = {name: [value] for name, value in ratios.items()}
    for name in fallen(ratios, last, FAIL_BELOW):
        while len(found[name]) < 3:
            for other, value in again(name).items():
                found[other].append(value)
    medians = {name: statistics.median(values) for name, values in found.items()}
    failed = fallen(medians, last, FAIL_BELOW)
    warned = [name for name in fallen(medians, last, WARN_BELOW) if name not in failed]

    def told(names: Sequence[str]) -> list[str]:
        return [f"{name} was {last[name]:.3f} and is {medians[name]:.3f}" for name in names]

    return told(warned), told(failed)
