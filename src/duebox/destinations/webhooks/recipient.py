"""One endpoint as a destination: it signs, sends, and says how that went."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from django.db import connections

from duebox import clock
from duebox.context import Origin
from duebox.destinations.base import Destination, Result
from duebox.destinations.terms import Terms
from duebox.destinations.webhooks import failing
from duebox.destinations.webhooks.event_types import PUBLIC
from duebox.destinations.webhooks.judging import GONE, judged, told
from duebox.destinations.webhooks.keys import signing_keys
from duebox.destinations.webhooks.masking import Mask
from duebox.destinations.webhooks.message import Stationery, stationery
from duebox.destinations.webhooks.vault import decrypted
from duebox.exceptions import DueboxError, Refused, Throttled, Undelivered
from duebox.fact import Fact
from duebox.models import WebhookEndpoint
from duebox.origins import entered
from duebox.outcome import Discard
from duebox.store import gates
from duebox.subscribers import OUTSIDE

if TYPE_CHECKING:
    from duebox.destinations.webhooks.answers import Answer
    from duebox.destinations.webhooks.destination import Webhooks
    from duebox.destinations.webhooks.urls import Target

OUR_FAULT_SECONDS = 300.0
"""What the project has to repair, such as a missing key, is not held against an endpoint: its events wait, and one of
them is tried so often."""


class Recipient(Destination):
    """What a row of endpoints says, made ready to send. A changed row makes another one."""

    def __init__(self, whole: Webhooks, row: WebhookEndpoint, terms: Terms) -> None:
        super().__init__(f"{whole.alias}/{row.pk}")
        self.row = row
        self.terms = replace(terms, rate=row.rate) if row.rate else terms
        self._whole, self._signs = whole, _live_secrets(row)
        self._ready: tuple[Target, Stationery, Mask] | Undelivered
        try:
            self._ready = self._prepared()
        except Undelivered as error:
            self._ready = error
        except DueboxError as error:  # as the answer to events: whoever looks at one of them finds the repair
            self._ready = Throttled(str(error), seconds=OUR_FAULT_SECONDS)
        self._warned: set[str] = set()

    def is_for(self, row: WebhookEndpoint) -> bool:
        """Whether this is what the row would be made into. A secret that has run out no longer signs."""
        return self._signs == _live_secrets(row) and all(
            getattr(row, field.attname) == getattr(self.row, field.attname) for field in row._meta.concrete_fields
        )

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        return [self._delivered(fact) for fact in batch]

    def send(self, fact: Fact) -> Answer:
        """Sign and send, now. Raises what keeps it from being answered."""
        row = fact.row
        # Asked again, after the fan-out did: what was stored for one organization never goes to another.
        if not row.organization or row.organization != self.row.organization:
            raise Refused("The event belongs to another organization than the endpoint; it was not sent.")
        if not row.type.startswith(PUBLIC):
            raise Refused(f"{row.type} is not a public event; it was not sent.")
        if isinstance(self._ready, Exception):
            raise copy(self._ready)  # a new one: one that is raised again and again only grows
        target, paper, mask = self._ready
        request = paper.request(row, int(time.time()))
        return mask.over(self._whole.wire.exchange(target, request), request)

    def fails_since(self, since: datetime) -> None:
        if isinstance(self._ready, Throttled):  # when that is repaired, the endpoint has all its time
            gates.close(self._whole.using, f"{OUTSIDE}{self.alias}", probed=False)
            return
        failing.warn(self.row, since, self._whole.disable_after_days, self._whole.using, self._warned)

    def _prepared(self) -> tuple[Target, Stationery, Mask]:
        target = self._whole.guard.read(self.row.url)
        keys = signing_keys([decrypted(each) for each in self._signs])
        headers = json.loads(decrypted(self.row.headers, "headers") or "{}")
        return target, stationery(target, keys, headers), Mask(target.path, headers.values())

    def _delivered(self, fact: Fact) -> Result:
        if self.row.disabled_at is not None:
            return Discard(f"the endpoint is disabled: {self.row.disabled_reason}".removesuffix(": "))
        try:
            answer = self.send(fact)
            if answer.status == GONE:
                return Discard(f"{told(answer)}{' The endpoint is disabled.' if self._give_up(fact) else ''}")
        except DueboxError as error:
            return error
        return judged(answer, self._whole.refused)

    def _give_up(self, fact: Fact) -> bool:
        """Threads that deliver hold no connection to the database, and are not left with one."""
        using = self._whole.using
        connection = connections[using]
        was_open = connection.connection is not None
        try:
            with entered(Origin(fact.correlation_id or fact.row.id)):
                return failing.give_up(self.row, "410 Gone", using, event_id=fact.row.id)
        finally:
            if not was_open:
                connection.close()
            self._whole.forget(self.row.pk)


def _live_secrets(row: WebhookEndpoint) -> list[str]:
    """Encrypted, the newest first."""
    older = row.previous_secret if row.previous_until and row.previous_until > clock.now() else ""
    return [row.secret, *([older] if older else [])]


class Nobody(Destination):
    """In the place of an endpoint that was removed."""

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        return [Discard("the endpoint was removed") for _ in batch]
