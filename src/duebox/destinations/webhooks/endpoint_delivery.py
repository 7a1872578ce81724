"""Delivery to one endpoint: the request with its signature, and the meaning of the response. Imported when something is
sent: it needs `cryptography` and `urllib3`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, NamedTuple

from django.db import connections

from duebox import clock
from duebox.context.current import Origin
from duebox.context.origins import CORRELATION_ID, entered
from duebox.destinations.base import Destination, DestinationPolicy, Result
from duebox.destinations.envelope import correlation, occurred_at
from duebox.destinations.webhooks import endpoint_lifecycle
from duebox.destinations.webhooks.encryption import decrypted
from duebox.destinations.webhooks.filters import PUBLIC, seen
from duebox.destinations.webhooks.response import GONE, Redaction, described, judged
from duebox.destinations.webhooks.signatures import (
    ID,
    SIGNATURE,
    TIMESTAMP,
    SigningKey,
    signature,
    signed_content,
    signing_keys,
)
from duebox.destinations.webhooks.url_guard import PORTS, Target
from duebox.events.address import Address
from duebox.events.fact import Fact, FactRow
from duebox.events.outcomes import Discard
from duebox.exceptions import DueboxError, Refused, Throttled, Undelivered
from duebox.models import WebhookEndpoint
from duebox.store import destinations

if TYPE_CHECKING:
    from duebox.destinations.webhooks.destination import Webhooks
    from duebox.destinations.webhooks.http import Answer


def body_of(row: FactRow) -> bytes:
    """The body of the request. The data is not parsed: it is sent as it was stored."""
    return (
        f'{{"id":"{row.id}","type":"{seen(row.type)}","version":{row.version},"timestamp":"{occurred_at(row)}",'
        f'"workspace_id":{encode_basestring(row.organization)},"data":{row.data}}}'
    ).encode()


class RequestTemplate(NamedTuple):
    """The parts that are the same in every request to an endpoint, computed once."""

    head: bytes
    keys: Sequence[SigningKey]

    def request(self, row: FactRow, timestamp: int) -> bytes:
        """The bytes of a request; the signature covers the bytes of its body."""
        body = body_of(row)
        signed = signature(signed_content(row.id, timestamp, body), self.keys)
        given = correlation(row)
        header = f"{CORRELATION_ID}: {given}\r\n" if _may_travel(given) else ""
        last = (
            f"{header}{ID}: {row.id}\r\n{TIMESTAMP}: {timestamp}\r\n{SIGNATURE}: {signed}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return b"%b%b%b" % (self.head, last.encode("ascii"), body)

    def __repr__(self) -> str:
        return "RequestTemplate(…)"


def request_template(target: Target, keys: Sequence[SigningKey], headers: Mapping[str, str]) -> RequestTemplate:
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {_host(target)}",
        f"User-Agent: {user_agent()}",
        "Content-Type: application/json",
        "Accept: */*",
        "Accept-Encoding: identity",
        *_lines(headers),
    ]
    return RequestTemplate("".join(f"{line}\r\n" for line in lines).encode("ascii"), keys)


def _lines(headers: Mapping[str, str]) -> Iterable[str]:
    return (f"{name}: {value}" for name, value in headers.items())


def _host(target: Target) -> str:
    name = f"[{target.host}]" if ":" in target.host else target.host
    return name if target.port == PORTS[target.scheme] else f"{name}:{target.port}"


def _may_travel(correlation: str) -> bool:
    """A correlation id may be any printable text, but a header must be ASCII."""
    return bool(correlation) and correlation.isascii() and correlation.isprintable()


@cache
def user_agent() -> str:
    try:
        return f"Duebox/{version('duebox')}"
    except PackageNotFoundError:
        return "Duebox"


OUR_FAULT_SECONDS = 300.0
"""A problem of the project, such as a missing key, is not the fault of an endpoint: its events wait, and one of them is
retried at this interval."""


class EndpointDestination(Destination):
    """An endpoint, prepared for sending. A changed row needs a new one."""

    def __init__(self, whole: Webhooks, row: WebhookEndpoint, policy: DestinationPolicy) -> None:
        super().__init__(f"{whole.alias}/{row.pk}")
        self.row = row
        self.policy = replace(policy, rate=row.rate) if row.rate else policy
        self._whole, self._signs = whole, _live_secrets(row)
        self._ready: tuple[Target, RequestTemplate, Redaction] | Undelivered
        try:
            self._ready = self._prepared()
        except Undelivered as error:
            self._ready = error
        except DueboxError as error:  # it becomes the error of each event, which shows the repair
            self._ready = Throttled(str(error), seconds=OUR_FAULT_SECONDS)
        self._warned: set[str] = set()

    def is_for(self, row: WebhookEndpoint) -> bool:
        """Whether it still corresponds to the row. An expired secret no longer signs."""
        return self._signs == _live_secrets(row) and all(
            getattr(row, field.attname) == getattr(self.row, field.attname) for field in row._meta.concrete_fields
        )

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        return [self._delivered(fact) for fact in batch]

    def send(self, fact: Fact) -> Answer:
        """Sign and send now. Raises an error if there is no response."""
        row = fact.row
        # Checked again after the fan-out: an event of one organization must never be sent to another.
        if not row.organization or row.organization != self.row.organization:
            raise Refused("The event belongs to another organization than the endpoint; it was not sent.")
        if not row.type.startswith(PUBLIC):
            raise Refused(f"{row.type} is not a public event; it was not sent.")
        if isinstance(self._ready, Exception):
            raise copy(self._ready)  # a copy: the traceback of an exception that is raised repeatedly grows
        target, template, redaction = self._ready
        request = template.request(row, int(time.time()))
        return redaction.over(self._whole.http_client.exchange(target, request), request)

    def fails_since(self, since: datetime) -> None:
        if isinstance(self._ready, Throttled):  # the endpoint is not at fault, so this time does not count
            destinations.close_breaker(self._whole.using, str(Address.of_destination(self.alias)), probed=False)
            return
        endpoint_lifecycle.warn(self.row, since, self._whole.disable_after_days, self._whole.using, self._warned)

    def _prepared(self) -> tuple[Target, RequestTemplate, Redaction]:
        target = self._whole.guard.read(self.row.url)
        keys = signing_keys([decrypted(each) for each in self._signs])
        headers = json.loads(decrypted(self.row.headers, "headers") or "{}")
        return target, request_template(target, keys, headers), Redaction(target.path, headers.values())

    def _delivered(self, fact: Fact) -> Result:
        if self.row.disabled_at is not None:
            return Discard(f"the endpoint is disabled: {self.row.disabled_reason}".removesuffix(": "))
        try:
            answer = self.send(fact)
            if answer.status == GONE:
                return Discard(f"{described(answer)}{' The endpoint is disabled.' if self._give_up(fact) else ''}")
        except DueboxError as error:
            return error
        return judged(answer, self._whole.refused)

    def _give_up(self, fact: Fact) -> bool:
        """Close the database connection afterwards: threads that deliver do not keep one."""
        using = self._whole.using
        connection = connections[using]
        was_open = connection.connection is not None
        try:
            with entered(Origin(fact.correlation_id or fact.row.id)):
                return endpoint_lifecycle.give_up(self.row, "410 Gone", using, event_id=fact.row.id)
        finally:
            if not was_open:
                connection.close()
            self._whole.forget(self.row.pk)


def _live_secrets(row: WebhookEndpoint) -> list[str]:
    """The encrypted secrets, newest first."""
    older = row.previous_secret if row.previous_until and row.previous_until > clock.now() else ""
    return [row.secret, *([older] if older else [])]


class MissingEndpoint(Destination):
    """Replaces an endpoint that was removed."""

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        return [Discard("the endpoint was removed") for _ in batch]
