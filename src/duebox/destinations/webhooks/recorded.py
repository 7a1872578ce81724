"""What happens to endpoints, in the audit log: who did it, what changed, why, and nothing that is a secret.

endpoint.created    endpoint.changed     endpoint.removed      endpoint.secret_rotated
endpoint.enabled    endpoint.disabled    endpoint.paused       endpoint.resumed
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from duebox.auditing.changes import difference
from duebox.auditing.holding import held
from duebox.auditing.policy import Pair
from duebox.auditing.record import audit
from duebox.auditing.values import MASK, keyed, plain
from duebox.destinations.webhooks.vault import decrypted
from duebox.exceptions import InvalidSecret
from duebox.fact import Actor
from duebox.models import WebhookEndpoint

WORKER = Actor("system", "duebox.worker")
"""Who did it, where nobody asked for it."""


def created(row: WebhookEndpoint, using: str) -> None:
    """Belongs into the transaction that has stored it."""
    _record("endpoint.created", None, row, using, also={"secret": (None, MASK)})


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
    """What is done to an endpoint in this block, and the entry about it, are one transaction. Nobody else changes the
    row meanwhile. Gives a dict for changes that the row does not show; where nothing differs there is no entry."""
    rows = WebhookEndpoint.objects.using(using).filter(pk=row.pk)

    def read(*, skip_locked: bool) -> list[WebhookEndpoint]:
        return list(rows.select_for_update(no_key=True, skip_locked=skip_locked))

    with transaction.atomic(using=using):
        before = held(using, {row.organization}, read, lacks=lambda found: not found and rows.exists())
        also: dict[str, Pair] = {}
        yield also
        told = {"reason": plain(reason), "actor": actor, "metadata": metadata}
        _record(action, before[0] if before else None, rows.first(), using, also=also, **told)


def _record(
    action: str,
    before: WebhookEndpoint | None,
    after: WebhookEndpoint | None,
    using: str,
    *,
    also: Mapping[str, Pair],
    **told: Any,
) -> None:
    row = after or before
    changes = {**difference(_seen(before) if before else None, _seen(after) if after else None), **also}
    if row is not None and changes:
        audit(action, row, changes=changes, organization=row.organization, using=using, **told)


def _seen(row: WebhookEndpoint) -> dict[str, Any]:
    """Of a URL the host, since its path may be a secret. Whether the rest is another one can be told by a hash."""
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
    except InvalidSecret:  # who has lost the key gives them new ones
        return MASK
    return {name: keyed(f"endpoint.headers.{name.lower()}", value) for name, value in headers.items()}
