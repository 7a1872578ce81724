"""`manage.py duebox worker` with the plans and handlers of these tests, on a clock that starts where it is told.

Its connections are named after its process, so that a test can see what it is doing and kill it right then.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime

import django
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
os.environ["PGAPPNAME"] = f"worker-{os.getpid()}"


def main(start: str, options: list[str]) -> None:
    django.setup()
    from tests.crash.time_app import declare

    declare()
    if start != "now":
        set_clock(datetime.fromisoformat(start))
    call_command("duebox", "worker", *options)


def set_clock(start: datetime) -> None:
    from duebox import clock

    clock.replace(clock.lapse(start, 1.0, since=time.monotonic(), read=time.monotonic))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
