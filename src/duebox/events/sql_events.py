"""Events that were emitted by SQL: a worker validates them and creates the deliveries to their subscribers.

The SQL function `duebox_emit` has no access to event types and subscribers. It stores the event with one delivery, to
`duebox.route`. The handler below does the rest in one transaction, which also settles that delivery: exactly once, even
if the worker crashes. An invalid event becomes a dead letter with the error; once the type is declared or corrected, a
retry routes it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from duebox.conf import Settings
from duebox.context.current import handling
from duebox.contracts import event_types
from duebox.contracts.enforce import contract_of, refuse_incomplete, with_public_events
from duebox.events.emit import NewEvent, announce, insert, ready_settings, routes_of
from duebox.events.fact import Fact, FactRow
from duebox.events.outcomes import Retry
from duebox.events.payload import encode
from duebox.events.subscribers import Subscriber, add
from duebox.exceptions import InvalidEvent, Permanent, UnsupportedVersion
from duebox.store.run_sql import run

NAME = "duebox.route"
"""The name is also in `store/sql/functions/duebox_emit.sql`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Router(Subscriber):
    """Receives only events that `duebox_emit` stored."""

    def receives(self, event_type: str) -> bool:
        return False


def route(event: Fact) -> None:
    here = handling.get()
    assert here is not None, "run by a worker"
    route_all([event], here.using)


def route_all(events: Sequence[Fact], using: str) -> None:
    """Create the deliveries of these events, and their public events. If one of the events is invalid, none is
    routed."""
    settings = ready_settings()
    rows = [event.row for event in events]
    for row in rows:
        refuse_invalid(row, settings)
    try:
        params = routes_of(rows)
    except InvalidEvent as error:  # it has no aggregate, and a subscriber is ordered
        raise Permanent(str(error)) from None
    run("route", using, {**params, "now": None})
    ids = {row.id for row in rows}
    public = [row for row in with_public_events(rows) if row.id not in ids]
    if public:
        insert(public, using)
    announce([*rows, *public], using)


def refuse_invalid(row: FactRow, settings: Settings) -> None:
    """Validate a stored event as `emit` validates a new one. The message contains no values of its data."""
    known = event_types.versions_of(row.type)
    if known and row.version > max(known):
        raise UnsupportedVersion(row.type, row.version)  # it waits for newer code
    data, metadata, limit, depth = row.data, row.metadata, settings.PAYLOAD_LIMIT_BYTES, settings.PAYLOAD_DEPTH
    try:
        kind = contract_of(NewEvent(type=row.type, version=row.version), settings).kind
        if kind is not None:
            refuse_incomplete(kind, row.aggregate_type, row.organization)
        encode(json.loads(data), limit=limit, depth=depth, check=partial(kind.check, values=False) if kind else None)
        encode(json.loads(metadata), limit=limit, depth=depth, root="metadata")
    except InvalidEvent as error:
        raise Permanent(f"{type(error).__name__}: {error}") from None


def register() -> None:
    add(
        Router(
            name=NAME,
            pattern="*",
            handler=route,
            together=route_all,
            as_stored=True,
            ordered=True,
            on_dead="skip",
            retry=Retry(limit=12, first=5.0, cap=3600.0),
        )
    )
