"""An event in a version that is newer than this code: it waits for a worker that reads it.

During a deployment old and new workers run side by side, and what the new code emits may come to an old one. That is
no failure of the handler, so no attempt is burned.
"""

from __future__ import annotations

import logging
import random
import time
from datetime import timedelta

from duebox import clock
from duebox.contracts.types import versions_of
from duebox.exceptions import A_DAY, UnsupportedVersion
from duebox.outcome import Snooze
from duebox.store.deliveries import Claim

logger = logging.getLogger("duebox.worker")

LONGEST_WAIT_FOR_CODE = A_DAY
"""No deployment takes longer. What is older is retried as after any error, and becomes a dead letter in the end."""
FIRST_SECONDS = 10.0
MOST_SECONDS = 600.0
TELL_SECONDS = 60.0

_told_at: dict[tuple[str, int, str], float] = {}


def wait_for_newer_code(claim: Claim, error: UnsupportedVersion) -> Snooze | None:
    """None where waiting does not help: the version is known here, or older, or the event has waited for a day."""
    age = clock.now().timestamp() - claim.fact.row.occurred
    if error.version <= max(versions_of(error.type), default=0) or age > LONGEST_WAIT_FOR_CODE:
        return None
    _tell(claim, error)
    # The longer it has waited, the longer it waits; apart from each other, since they came together.
    seconds = min(MOST_SECONDS, max(FIRST_SECONDS, age / 10))
    return Snooze(timedelta(seconds=seconds * random.uniform(0.9, 1.1)))  # noqa: S311 - not a secret


def forget() -> None:
    """What was told; for tests."""
    _told_at.clear()


def _tell(claim: Claim, error: UnsupportedVersion) -> None:
    """Once a minute of each kind: a crowd of them may wait."""
    key = (error.type, error.version, claim.subscriber)
    if time.monotonic() - _told_at.get(key, float("-inf")) < TELL_SECONDS:
        return
    _told_at[key] = time.monotonic()
    logger.warning("event waits for newer code: type=%s version=%d subscriber=%s", *key)
