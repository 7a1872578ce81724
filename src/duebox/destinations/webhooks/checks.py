"""A system check of webhooks: whether what is stored encrypted can be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import DatabaseError, connections

from duebox import clock
from duebox.conf import conf
from duebox.destinations.configured import subscriptions
from duebox.destinations.subscription import backend
from duebox.exceptions import DueboxError
from duebox.models import WebhookEndpoint

SHOWN = 5
_NEEDED = ("secret", "previous_secret", "previous_until", "headers")


@register(Tags.database, "duebox")
def check_that_endpoints_can_be_read(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Not an error: `migrate` runs this check too, and has nothing to do with it."""
    using = conf().DATABASE
    if using not in (databases or ()) or connections[using].vendor != "postgresql" or not _is_served():
        return []
    try:
        rows = list(WebhookEndpoint.objects.using(using).only(*_NEEDED).order_by("pk"))
    except DatabaseError:
        return []  # another check says what is wrong with the database
    found = list(_unreadable(rows))
    if not found:
        return []
    shown = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
    return [
        Warning(
            f"{len(found)} of {len(rows)} endpoints of webhooks cannot be sent to, since the key is missing: {shown}.",
            hint="Add it to DUEBOX['WEBHOOK_KEYS'], or to SECRET_KEY_FALLBACKS where it was made of SECRET_KEY. If it "
            "is lost, give each of them a new secret and its headers again: manage.py duebox endpoints rotate ID",
            id="duebox.W014",
        )
    ]


def _is_served() -> bool:
    """Whether there are webhooks, and the packages that they need; another check says what is missing."""
    from duebox.destinations.webhooks import Webhooks

    try:
        return any(
            issubclass(backend(each.entry), Webhooks) and each.destination() for each in subscriptions().values()
        )
    except DueboxError:
        return False


def _unreadable(rows: list[WebhookEndpoint]) -> Iterator[str]:
    from duebox.destinations.webhooks.vault import readable

    now = clock.now()
    for row in rows:
        older = row.previous_secret if row.previous_until and row.previous_until > now else ""
        if not all(map(readable, (row.secret, older, row.headers))):
            yield str(row.pk)
