"""What a worker does with Redis."""

from __future__ import annotations

import logging
from collections.abc import Callable

from duebox.conf import conf
from duebox.redis_tier.checking import what_is_missing
from duebox.redis_tier.listener import RedisListener
from duebox.redis_tier.mirroring import Mirroring

logger = logging.getLogger("duebox.redis")


class Tier:
    """Hears the bell and keeps the mirror, each in a thread; neither is needed for anything to be delivered."""

    def __init__(self, wake: Callable[[], None], using: str) -> None:
        self.listener = RedisListener(wake, using)
        self.mirroring = Mirroring(using)

    def start(self) -> None:
        self.listener.start()
        self.mirroring.start()

    def stop(self) -> None:
        self.listener.stop()
        self.mirroring.stop()


def tier_of(wake: Callable[[], None], using: str) -> Tier | None:
    """None where there is no Redis, or nobody who could talk to it."""
    if not conf().REDIS_URL:
        return None
    if missing := what_is_missing():
        logger.warning("Redis cannot be used; polling: %s", missing)
        return None
    return Tier(wake, using)
