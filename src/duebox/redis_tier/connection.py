"""The way to Redis, and the names of what is kept there."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.core.signals import setting_changed
from django.db import connections

from duebox.conf import conf
from duebox.destinations.drivers import driver
from duebox.exceptions import NotReady

Errors = tuple[type[Exception], ...]


@cache
def client(timeout: float) -> Any:
    """One for all threads of the process. It connects when it is used, and does not try again by itself."""
    url = conf().REDIS_URL
    if not url:
        raise NotReady("There is no Redis to talk to; set DUEBOX['REDIS_URL'], such as redis://localhost:6379/0.")
    redis = driver("redis", "redis")
    retry = driver("redis.retry", "redis").Retry(driver("redis.backoff", "redis").NoBackoff(), 0)
    return redis.Redis.from_url(
        url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=retry, decode_responses=True
    )


def errors() -> Errors:
    """What may happen on the way; ValueError where a connection was closed while its driver read."""
    return (driver("redis", "redis").exceptions.RedisError, OSError, ValueError)


def place(using: str, word: str) -> str:
    """A name in Redis: several projects may share one, so the name of the database is part of it."""
    return f"duebox:{connections[using].settings_dict['NAME']}:{word}"


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "DUEBOX":
        client.cache_clear()


setting_changed.connect(_forget, dispatch_uid="duebox.redis_tier")
