"""A worker process that says when it is ready, drains on command, and reports."""

from __future__ import annotations

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")


def main() -> None:
    django.setup()
    from duebox.worker.loop import Worker
    from duebox.worker.process import run_worker

    worker = Worker(until_idle="--for-ever" not in sys.argv)
    print("ready", flush=True)
    sys.stdin.readline()
    run_worker(worker)
    print(json.dumps(worker.crew.tally.as_dict()), flush=True)


if __name__ == "__main__":
    main()
