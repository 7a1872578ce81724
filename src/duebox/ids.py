"""Time-ordered identities: UUID version 7 (RFC 9562), strictly increasing within a process."""

from __future__ import annotations

import os
import threading
import time
from uuid import UUID

_lock = threading.Lock()
_last = 0


def uuid7() -> UUID:
    """48 bits of milliseconds, 12 bits of the fraction of one, 62 random bits."""
    global _last
    with _lock:
        # 2**-12 ms is 244 ns: one tick. Two calls in one tick, or a clock that steps back, take the next tick.
        now = time.time_ns()
        ticks = (now // 1_000_000) << 12 | (now % 1_000_000) * 4096 // 1_000_000
        _last = ticks = ticks if ticks > _last else _last + 1
    random = int.from_bytes(os.urandom(8)) & ((1 << 62) - 1)
    return UUID(int=(ticks >> 12) << 80 | 7 << 76 | (ticks & 0xFFF) << 64 | 2 << 62 | random)
