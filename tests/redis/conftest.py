from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from django.db import connections

from duebox.redis import wakeup
from tests.destinations.proxy import Proxy

PORT = 6379


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for Redis waits in tests too, but not for long."""
    monkeypatch.setattr(wakeup, "AWAY_SECONDS", 0.05)
    monkeypatch.setattr(wakeup, "LISTEN_SECONDS", 0.2)


@pytest.fixture
def server() -> Iterator[redis.Redis]:
    """The real Redis, past any proxy."""
    with redis.Redis(port=PORT, decode_responses=True) as client:
        yield client
        for key in client.scan_iter(f"duebox:{connections['default'].settings_dict['NAME']}:*"):
            client.delete(key)


@pytest.fixture
def wire() -> Iterator[Proxy]:
    """What Duebox takes for Redis; it can be cut."""
    with Proxy(PORT) as proxy:
        yield proxy


@pytest.fixture
def configure(settings: Any, wire: Proxy, server: redis.Redis) -> Callable[..., None]:
    """The `DUEBOX` setting of a short-lived worker that does not LISTEN, and has a Redis."""

    def change(**changes: Any) -> None:
        usual = {"LEASE_SECONDS": 3, "SHUTDOWN_SECONDS": 5, "THREADS": 2, "LISTEN": False, "UNDECLARED": "allow"}
        settings.DUEBOX = {**usual, "REDIS_URL": f"redis://127.0.0.1:{wire.port}/0", **changes}

    change()
    return change
