"""What the threads of a worker have in common."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from duebox.conf import conf
from duebox.worker.lease import Clock, Lease
from duebox.worker.wakeup import Wakeup
from duebox.worker.watchdog import Watchdog


@dataclass(frozen=True)
class Resources:
    using: str
    lease: Lease
    clock: Clock
    watchdog: Watchdog
    wakeup: Wakeup
    rescue_limit: int
    last_chance: threading.Lock = field(default_factory=threading.Lock)
    """Held while a delivery runs that was running each time when workers were lost. It runs alone, so that it is known
    which one ended the process if that happens again."""

    @classmethod
    def create(cls, using: str, *, until_idle: bool) -> Resources:
        settings, clock, watchdog = conf(), Clock(), Watchdog()
        lease = Lease(
            using,
            settings.LEASE_SECONDS,
            settings.RESCUE_LIMIT,
            clock,
            probe=settings.LISTEN,
            watchdog=watchdog,
        )
        watchdog.checks.append(lease.abandon_if_too_old)
        return cls(using, lease, clock, watchdog, Wakeup(until_idle=until_idle), settings.RESCUE_LIMIT)
