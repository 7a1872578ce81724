"""A worker in lock-step: each line that it reads is a moment; it delivers what is due then and says how many."""

from __future__ import annotations

import os
import sys
from datetime import datetime

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")


def main() -> None:
    django.setup()
    from tests.crash.time_app import declare

    declare()
    print("ready", flush=True)
    for line in sys.stdin:
        print(work_at(datetime.fromisoformat(line.strip())), flush=True)


def work_at(moment: datetime) -> int:
    from duebox import clock
    from duebox.worker.drain import drain

    clock.replace(lambda: moment, speed=0.0)
    drained = drain(limit=1_000_000)
    if drained.errors:
        raise drained.errors[0]
    return drained.delivered


if __name__ == "__main__":
    main()
