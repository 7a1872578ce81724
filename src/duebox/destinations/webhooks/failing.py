"""An endpoint that keeps failing: its owner is warned by events, and in the end it is left alone.

duebox.endpoint.failing     at 50, 70 and 90 % of the time that it is granted
duebox.endpoint.disabled    at its end, or when the endpoint answers 410 Gone

That it was disabled, by whomever, is an entry of the audit log as well.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from duebox import clock
from duebox.destinations.webhooks import recorded
from duebox.emit import emit
from duebox.models import WebhookEndpoint
from duebox.promise import Own
from duebox.store import webhooks as store
from duebox.store.brief import Busy, brief

WARNED_AT = (50, 70, 90)


def warn(row: WebhookEndpoint, since: datetime, days: float, using: str, warned: set[str]) -> None:
    """Say so as often as there is something new to say; `warned` keeps from asking the database each time."""
    if row.disabled_at is not None or not days:
        return
    since = max(since, row.enabled_at)  # what was before it was enabled again is forgiven
    share = 100 * ((clock.now() - since) / timedelta(days=days))
    if share >= 100:
        give_up(row, f"every try since {since:%Y-%m-%d %H:%M} UTC has failed", using)
        return
    for percent in WARNED_AT:
        key = f"{row.pk}:{since:%Y-%m-%dT%H:%M:%S}:{percent}"
        if share >= percent and key not in warned:
            data = {"failing_since": since, "percent": percent, "disabled_at": since + timedelta(days=days)}
            _emit("duebox.endpoint.failing", row, data, using, key=key)
            warned.add(key)


def give_up(row: WebhookEndpoint, reason: str, using: str, **known: str) -> bool:
    """As a worker does it: False where somebody holds the endpoint, or the log, for longer than it can wait. The next
    failure tries again."""
    try:
        with brief(using):
            disable(row, reason, using, actor=recorded.WORKER, metadata=known)
    except Busy:
        return False
    return True


def disable(row: WebhookEndpoint, reason: str, using: str, **told: Any) -> bool:
    """False when somebody else was faster."""
    with recorded.changing(row, "endpoint.disabled", using, reason=reason, **told):
        done = store.disable(using, row.pk, reason)
        if done:
            _emit("duebox.endpoint.disabled", row, {"reason": reason}, using)
    return done


def _emit(type: str, row: WebhookEndpoint, data: dict[str, Any], using: str, key: str | None = None) -> None:
    # The host alone: the path of a URL may be a secret.
    told = {"endpoint": str(row.pk), "host": row.host, "description": row.description, **data}
    emit(
        Own(type),
        told,
        about=("endpoint", row.pk),
        organization=row.organization,
        idempotency_key=key,
        on_conflict="first",
        using=using,
    )
