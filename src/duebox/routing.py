"""Events that were emitted by SQL: a worker validates them and makes the deliveries to their subscribers.

`duebox_emit` in the database knows neither event types nor subscribers. It stores the event with one delivery, to
`duebox.route`. The handler below does the rest in one transaction, which also settles that delivery: once, whatever
happens to the worker. An event that is not as its type declares becomes a dead letter that says why; once the type is
declared or corrected, a redrive routes it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from duebox.conf import Settings
from duebox.context import handling
from duebox.contracts import types
from duebox.emit import NewEvent, announce, insert, ready_settings, routes_of
from duebox.exceptions import InvalidEvent, Permanent, UnsupportedVersion
from duebox.fact import Fact, FactRow
from duebox.outcome import Retry
from duebox.payload import encode
from duebox.promise import contract_of, refuse_incomplete, with_twins
from duebox.store.statements import run
from duebox.subscribers import Subscriber, add

NAME = "duebox.route"
"""The migration that makes `duebox_emit` has it, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Router(Subscriber):
    """Receives only what `duebox_emit` stored for it."""

    def receives(self, event_type: str) -> bool:
        return False


def route(event: Fact) -> None:
    here = handling.get()
    assert here is not None, "run by a worker"
    route_all([event], here.using)


def route_all(events: Sequence[Fact], using: str) -> None:
    """Make the deliveries of these events, and their public twins. If one of them cannot be, none is."""
    settings = ready_settings()
    rows = [event.row for event in events]
    for row in rows:
        refuse_invalid(row, settings)
    try:
        params = routes_of(rows)
    except InvalidEvent as error:  # it has no aggregate, and somebody takes it in order
        raise Permanent(str(error)) from None
    run("route", using, {**params, "now": None})
    ids = {row.id for row in rows}
    twins = [row for row in with_twins(rows) if row.id not in ids]
    if twins:
        insert(twins, using)
    announce([*events, *map(Fact, twins)], using)


def refuse_invalid(row: FactRow, settings: Settings) -> None:
    """Hold a stored event to what `emit` holds a new one to. The message has no values of its data."""
    known = types.versions_of(row.type)
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
