"""Spreading a crowd: everyone's 9:00 need not be the same second."""

from __future__ import annotations

import hashlib
from datetime import timedelta


def spread(seed: str, window: timedelta) -> timedelta:
    """A delay within the window, always the same for the same seed, in whole milliseconds.

    It hangs on the schedule and not on the occurrence, so that a daily job stays a day apart.
    """
    steps = int(window / timedelta(milliseconds=1))
    if steps <= 0:
        return timedelta(0)
    digest = hashlib.blake2b(seed.encode(), digest_size=8).digest()
    return timedelta(milliseconds=int.from_bytes(digest) % steps)
