"""Database errors pass: try again after 1, 2 and 4 seconds, then let the caller decide."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError

from duebox.worker.tidy import tidy_connections
from duebox.worker.watchdog import limited

logger = logging.getLogger("duebox.worker")

WAITS = (1.0, 2.0, 4.0)
T = TypeVar("T")


def patiently(action: Callable[[], T]) -> T:
    for wait in WAITS:
        try:
            with limited():
                return action()
        except (OperationalError, InterfaceError) as error:
            tidy_connections()
            logger.warning("database error, trying again in %g s: %s", wait, str(error).strip())
            time.sleep(wait)
    with limited():
        return action()
