"""The connection to Redis, the names of its keys, and the check that the package is installed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, register
from django.core.signals import setting_changed
from django.db import connections

from duebox.conf import conf
from duebox.destinations.options import driver
from duebox.exceptions import InvalidDestination, NotReady

Errors = tuple[type[Exception], ...]


@cache
def client(timeout: float) -> Any:
    """A client for all threads of the process. It connects on first use, and does not retry."""
    url = conf().REDIS_URL
    if not url:
        raise NotReady("No Redis is configured; set DUEBOX['REDIS_URL'], such as redis://localhost:6379/0.")
    redis = driver("redis", "redis")
    retry = driver("redis.retry", "redis").Retry(driver("redis.backoff", "redis").NoBackoff(), 0)
    return redis.Redis.from_url(
        url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=retry, decode_responses=True
    )


def errors() -> Errors:
    """The errors of the client; ValueError if a connection was closed during a read."""
    return (driver("redis", "redis").exceptions.RedisError, OSError, ValueError)


def place(using: str, word: str) -> str:
    """A key in Redis, with the name of the database in it, because several projects may share one Redis."""
    return f"duebox:{connections[using].settings_dict['NAME']}:{word}"


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "DUEBOX":
        client.cache_clear()


setting_changed.connect(_forget, dispatch_uid="duebox.redis")


def what_is_missing() -> str:
    """A sentence with the repair if the package is missing; otherwise empty."""
    try:
        driver("redis", "redis")
    except InvalidDestination as error:
        return str(error)
    return ""


def check_redis_package(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    if not conf().REDIS_URL or not (missing := what_is_missing()):
        return []
    message = f"DUEBOX['REDIS_URL'] is set, but Redis cannot be used. {missing}"
    return [Error(message, hint="Install it, or leave REDIS_URL out: workers poll then.", id="duebox.E016")]


def register_checks() -> None:
    register(check_redis_package, "duebox")
