"""Fast-forward for the page: the shared clock jumps from one thing that is due to the next, up to a moment.

It stops half a second before each of them, so that everything fires at its own time, as it does on any other day.
Without a shared clock (see `timelapse`) there is nothing to move.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

from django.db import connection
from django.db.models import Min
from django.utils import timezone

from duebox.models import Delivery, RowChange, Schedule
from examples.clinic.timelapse import VARIABLE, set_clock

_RUN_UP = timedelta(seconds=0.5)
_LOOK_SECONDS = 0.05
_PATIENCE_SECONDS = 10.0


class FastForward:
    """One for the web server's process, which is the only one that writes the clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._target: datetime | None = None

    @property
    def is_possible(self) -> bool:
        return VARIABLE in os.environ

    @property
    def target(self) -> datetime | None:
        """Where the clock is on its way to."""
        return self._target

    def to(self, moment: datetime) -> None:
        with self._lock:
            is_running = self._target is not None
            self._target = max(moment, self._target or moment)
        if not is_running:
            threading.Thread(target=self._run, name="fast-forward", daemon=True).start()

    def _run(self) -> None:
        try:
            while True:
                _wait_until_settled()
                with self._lock:
                    target = self._target
                    following = next_moment()
                    if target is None or following is None or following > target:
                        _jump(target)
                        self._target = None
                        return
                _jump(following - _RUN_UP)
                time.sleep(max(0.0, (following - timezone.now()).total_seconds()))
        except BaseException:
            self._target = None
            raise
        finally:
            connection.close()


def next_moment() -> datetime | None:
    """When the next schedule or retry is due. What Duebox schedules for itself is no reason to stop."""
    now = timezone.now()
    found = [
        Schedule.objects.scheduled().of_project().filter(due_at__gt=now).aggregate(first=Min("due_at"))["first"],
        Delivery.objects.filter(status="pending", due_at__gt=now).aggregate(first=Min("due_at"))["first"],
    ]
    return min((each for each in found if each), default=None)


def _jump(moment: datetime | None) -> None:
    if moment is None or moment <= timezone.now():
        return
    set_clock(Path(os.environ[VARIABLE]), moment)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('duebox', 'later')")  # workers sleep by the time that they knew: look again


def _wait_until_settled() -> None:
    """Until what is due now has fired and was handled; a worker that is not there is not waited for for long."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while _something_is_due() and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)


def _something_is_due() -> bool:
    now = timezone.now()
    return (
        RowChange.objects.exists()
        or Schedule.objects.scheduled().of_project().filter(due_at__lte=now).exists()
        or Delivery.objects.filter(status="pending", due_at__lte=now).exists()
    )


fast_forward = FastForward()
