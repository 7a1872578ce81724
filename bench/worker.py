"""A worker process that says when it is ready, drains on command, and reports."""

from __future__ import annotations

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")


def main() -> None:
    django.setup()
    from duebox.worker.supervisor import run_worker
    from duebox.worker.worker import Worker

    worker = Worker(until_idle="--for-ever" not in sys.argv)
    if os.environ.get("DUEBOX_BENCH_OBSERVED") == "off":
        worker.rollups.start = lambda: None  # type: ignore[method-assign]
    print("ready", flush=True)
    sys.stdin.readline()
    run_worker(worker)
    print(json.dumps(worker.outcome_counts.as_dict()), flush=True)


if __name__ == "__main__":
    main()
