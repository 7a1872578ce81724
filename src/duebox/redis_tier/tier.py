"""What a worker does with Redis."""

from __future__ import annotations

from collections.abc import Callable

from duebox.conf import conf
from duebox.redis_tier.listener import RedisListener
from duebox.redis_tier.mirroring import Mirroring


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
    """None where there is no Redis."""
    return Tier(wake, using) if conf().REDIS_URL else None
