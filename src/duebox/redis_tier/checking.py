"""A system check, and what a worker asks as well: whether there is anybody here who can talk to Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, register

from duebox.conf import conf
from duebox.destinations.drivers import driver
from duebox.exceptions import InvalidDestination


def what_is_missing() -> str:
    """A sentence with the repair, or nothing."""
    try:
        driver("redis", "redis")
    except InvalidDestination as error:
        return str(error)
    return ""


@register("duebox")
def check_redis_package(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    if not conf().REDIS_URL or not (missing := what_is_missing()):
        return []
    told = f"DUEBOX['REDIS_URL'] is set, and nobody here can talk to a Redis. {missing}"
    return [Error(told, hint="Install it, or leave REDIS_URL out: workers poll then.", id="duebox.E016")]
