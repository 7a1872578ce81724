"""Endpoints that continue to fail cause warnings and are disabled; every change of an endpoint, and every test, is
recorded in the audit log.

endpoint.created    endpoint.changed     endpoint.removed      endpoint.secret_rotated
endpoint.enabled    endpoint.disabled    endpoint.paused       endpoint.resumed
endpoint.tested

duebox.endpoint.failing     at 50, 70 and 90 % of the time that it is granted
duebox.endpoint.disabled    at its end, or when the endpoint answers 410 Gone

Disabling an endpoint, by a user or by Duebox, is recorded in the audit log as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from duebox import clock
from duebox.audit_log.policy import MASK, Pair, difference, keyed, plain
from duebox.audit_log.record import WORKER as WORKER
from duebox.audit_log.record import audit
from duebox.contracts.enforce import Own
from duebox.destinations.webhooks.encryption import decrypted
from duebox.events.emit import emit
from duebox.events.fact import Actor
from duebox.exceptions import InvalidSecret
from duebox.models import WebhookEndpoint
from duebox.store import destinations as store
from duebox.store.run_sql import Busy, lock_timeout


def created(row: WebhookEndpoint, using: str) -> None:
    """Call it in the transaction that stores the endpoint."""
    _record("endpoint.created", None, row, using, also={"secret": (None, MASK)})


def tested(row: WebhookEndpoint, status: int | None, using: str) -> None:
    """Record that a test event was sent, and the status of the response."""
    with transaction.atomic(using=using):
        audit("endpoint.tested", row, metadata={"status": status}, organization=row.organization, using=using)


@contextmanager
def changing(
    row: WebhookEndpoint,
    action: str,
    using: str,
    *,
    reason: str = "",
    actor: Actor | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Iterator[dict[str, Pair]]:
    """Change an endpoint and record the change in one transaction, with the row locked. Yields a dict for changes that
    the row does not show; without a change there is no entry."""
    rows = WebhookEndpoint.objects.using(using).filter(pk=row.pk)
    with transaction.atomic(using=using):
        before = rows.select_for_update(no_key=True).first()
        also: dict[str, Pair] = {}
        yield also
        details = {"reason": plain(reason), "actor": actor, "metadata": metadata}
        _record(action, before, rows.first(), using, also=also, **details)


def _record(
    action: str,
    before: WebhookEndpoint | None,
    after: WebhookEndpoint | None,
    using: str,
    *,
    also: Mapping[str, Pair],
    **details: Any,
) -> None:
    row = after or before
    changes = {**difference(_seen(before) if before else None, _seen(after) if after else None), **also}
    if row is not None and changes:
        audit(action, row, changes=changes, organization=row.organization, using=using, **details)


def _seen(row: WebhookEndpoint) -> dict[str, Any]:
    """The values for the audit log. Of a URL only the host, since its path may be secret; a hash shows whether the rest
    changed."""
    return {
        "host": row.host,
        "url": keyed("endpoint.url", row.url),
        "types": plain(row.types),
        "description": plain(row.description),
        "headers": _headers(row),
        "rate": row.rate,
        "previous_until": plain(row.previous_until),
        "state": "disabled" if row.disabled_at else "enabled",
    }


def _headers(row: WebhookEndpoint) -> dict[str, str | None] | str:
    try:
        headers = json.loads(decrypted(row.headers) or "{}")
    except InvalidSecret:  # the key is lost, and new headers replace these
        return MASK
    return {name: keyed(f"endpoint.headers.{name.lower()}", value) for name, value in headers.items()}


WARNED_AT = (50, 70, 90)


def warn(row: WebhookEndpoint, since: datetime, days: float, using: str, warned: set[str]) -> None:
    """Emit each warning once; `warned` avoids a query each time."""
    if row.disabled_at is not None or not days:
        return
    since = max(since, row.enabled_at)  # failures from before it was enabled again do not count
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
    """Called in a worker: False if the endpoint or the audit log is locked for longer than the worker can wait. The
    next failure tries again."""
    try:
        with lock_timeout(using):
            disable(row, reason, using, actor=WORKER, metadata=known)
    except Busy:
        return False
    return True


def disable(row: WebhookEndpoint, reason: str, using: str, **details: Any) -> bool:
    """False if another process was faster."""
    with changing(row, "endpoint.disabled", using, reason=reason, **details):
        done = store.disable(using, row.pk, reason)
        if done:
            _emit("duebox.endpoint.disabled", row, {"reason": reason}, using)
    return done


def _emit(type: str, row: WebhookEndpoint, data: dict[str, Any], using: str, key: str | None = None) -> None:
    # The host alone: the path of a URL may be secret.
    payload = {"endpoint": str(row.pk), "host": row.host, "description": row.description, **data}
    emit(
        Own(type),
        payload,
        about=("endpoint", row.pk),
        organization=row.organization,
        idempotency_key=key,
        on_conflict="first",
        using=using,
    )
