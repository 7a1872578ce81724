"""Deliveries in any state: find them, see what happened to them, retry, park and discard them; and send events again.

What `manage.py duebox deliveries` and `duebox events replay` do, as functions. A delivery is one event for
one handler or destination; it is stored until it is delivered. Every action leaves a line in the history that says who
asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import wraps
from typing import ParamSpec, TypedDict, TypeVar, Unpack

from duebox.conf import conf
from duebox.destinations.names import destination_name, handler_name, serves_endpoints
from duebox.events.address import Address
from duebox.events.identities import About, aggregate_of
from duebox.events.subscribers import receivers_of
from duebox.exceptions import InvalidAction
from duebox.models.delivery import STATES
from duebox.store import deliveries, operations
from duebox.store import deliveries as store_backlog
from duebox.store.deliveries import Blocked, Orphaned
from duebox.store.operations import Done, Group, OpenDelivery, Pace, Which
from duebox.store.replay import Manner, Replayed, bulk, missing, recover, resend
from duebox.store.run_sql import migrated
from duebox.store.targets import is_known, public, unlike

__all__ = [
    "STATES", "Blocked", "Done", "Filters", "Group", "Manner", "OpenDelivery", "Orphaned", "Replayed", "blocked",
    "bulk", "discard", "find", "get", "groups", "missing", "newest", "orphaned", "park", "receivers", "recover",
    "resend", "retry",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")
FAILED = ("dead", "retrying")
"""The states that `retry` selects by default."""


def _needs_tables(function: Callable[P, R]) -> Callable[P, R]:
    """If the tables are missing, raise an error that names the `migrate` command."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        with migrated(str(options.get("using") or conf().DATABASE)):
            return function(*args, **options)

    return call


class Filters(TypedDict, total=False):
    """Filters that select deliveries; one that is left out matches everything."""

    state: str | Sequence[str] | None
    type: str | None
    handler: str | None
    destination: str | None
    group: str | None
    organization: str | None
    correlation_id: str | None
    about: About
    since: datetime | None


@_needs_tables
def find(
    *, limit: int | None = 50, payload: bool = True, using: str | None = None, **filters: Unpack[Filters]
) -> list[OpenDelivery]:
    """Deliveries that match all filters, by default in any state. Pending ones are ordered by due time, others by
    id. Without `payload` their `data` is left empty, and not read: it may be large."""
    alias = using or conf().DATABASE
    found = operations.find(alias, limit=limit, payload=payload, **_which(alias, filters))
    if not found:
        _refuse_unknown_type(filters.get("type"))
    return found


@_needs_tables
def newest(
    *,
    before: int | None = None,
    limit: int = 50,
    payload: bool = True,
    using: str | None = None,
    **filters: Unpack[Filters],
) -> list[OpenDelivery]:
    """Deliveries that match all filters, newest first, one page at a time: `before` is the last id of the previous
    page. `payload` as in `find`."""
    alias = using or conf().DATABASE
    return operations.newest(alias, before=before, limit=limit, payload=payload, **_which(alias, filters))


@_needs_tables
def get(id: int, *, payload: bool = True, using: str | None = None) -> OpenDelivery | None:
    """The delivery with this id; None if there is none, or if it was delivered or discarded. `payload` as in
    `find`."""
    found = operations.find(using or conf().DATABASE, payload=payload, ids=[id])
    return found[0] if found else None


@_needs_tables
def groups(
    *, limit: int = 50, newest: int | None = None, using: str | None = None, **filters: Unpack[Filters]
) -> list[Group]:
    """Dead letters grouped by event type, receiver and cause, largest group first; with `state="parked"`, parked
    deliveries. With `newest` only that many of them are read, which takes the same time however many there are."""
    alias = using or conf().DATABASE
    for name in ("about", "correlation_id"):
        if filters.get(name) is not None:
            raise InvalidAction(f"groups() does not filter by {name}; use find().")
    which = _which(alias, filters, ("dead",))
    if which["states"] not in (["dead"], ["parked"]):
        raise InvalidAction("Only dead or parked deliveries have groups; pass state='dead' or state='parked'.")
    found = operations.groups(alias, parked=which["states"] == ["parked"], limit=limit, newest=newest, **which)
    if not found:
        _refuse_unknown_type(filters.get("type"))
    return found


@_needs_tables
def retry(
    ids: Iterable[int] = (),
    *,
    by: str = "",
    rate: float | None = None,
    limit: int | None = None,
    dry_run: bool = False,
    using: str | None = None,
    progress: Callable[[int], None] | None = None,
    **filters: Unpack[Filters],
) -> Done:
    """Make deliveries due now, with a fresh set of retries: dead, parked, retrying or scheduled ones.

    Select them by ids, or by filters: then those that are dead or retrying, unless `state` names others. `rate` limits
    how many become due per second. Running deliveries are skipped, and so are those without a receiver in this code.
    """
    pace, note = Pace(rate), f"retried by {by}" if by else "retried"

    def act(alias: str, part: list[int], states: Sequence[str]) -> Done:
        return operations.retry(alias, part, note=note, pace=pace, states=states, dry_run=dry_run)

    return _act(act, ids, filters, FAILED, limit=limit, using=using, progress=progress)


@_needs_tables
def park(
    ids: Iterable[int] = (),
    *,
    note: str,
    by: str = "",
    limit: int | None = None,
    dry_run: bool = False,
    using: str | None = None,
    progress: Callable[[int], None] | None = None,
    **filters: Unpack[Filters],
) -> Done:
    """Park deliveries, so that no worker claims them until they are retried. Select them by ids in any state but
    running, or by filters: then those that are dead, unless `state` names others. A parked delivery in an ordered
    stream blocks those behind it."""
    entry = _entry("parked", by, note)

    def act(alias: str, part: list[int], states: Sequence[str]) -> Done:
        return operations.park(alias, part, note=entry, states=states, dry_run=dry_run)

    return _act(act, ids, filters, ("dead",), limit=limit, using=using, progress=progress)


@_needs_tables
def discard(
    ids: Iterable[int] = (),
    *,
    reason: str,
    by: str = "",
    limit: int | None = None,
    dry_run: bool = False,
    using: str | None = None,
    progress: Callable[[int], None] | None = None,
    **filters: Unpack[Filters],
) -> Done:
    """Discard deliveries for good. Select them by ids in any state but running, or by filters: then those that are
    dead, unless `state` names others. The event and the history stay; an ordered stream that was blocked continues."""
    entry = _entry("discarded", by, reason)

    def act(alias: str, part: list[int], states: Sequence[str]) -> Done:
        return operations.discard(alias, part, note=entry, states=states, dry_run=dry_run)

    return _act(act, ids, filters, ("dead",), limit=limit, using=using, progress=progress)


@_needs_tables
def blocked(
    *, handler: str | None = None, destination: str | None = None, limit: int = 50, using: str | None = None
) -> list[Blocked]:
    """Ordered streams that are blocked because their first delivery is dead, parked, retrying or snoozed; those with
    the most deliveries behind it first."""
    alias = using or conf().DATABASE
    subscriber = _subscriber(alias, Filters(handler=handler, destination=destination))
    return deliveries.blocked(alias, subscriber=subscriber, limit=limit)


@_needs_tables
def orphaned(*, using: str | None = None) -> list[Orphaned]:
    """Handlers and destinations that stored deliveries name but this code does not have."""
    return store_backlog.orphaned(store_backlog.backlog(using or conf().DATABASE))


def receivers(type: str) -> list[str]:
    """The handlers and destinations that may get events of this type, by the names that their deliveries have."""
    return [each.name for each in receivers_of(type)]


def _act(
    act: Callable[[str, list[int], Sequence[str]], Done],
    ids: Iterable[int],
    filters: Filters,
    default: Sequence[str],
    *,
    limit: int | None,
    using: str | None,
    progress: Callable[[int], None] | None,
) -> Done:
    """Find the selected deliveries and process them in batches."""
    alias, chosen, done = using or conf().DATABASE, list(ids), Done()
    given = any(value is not None for value in filters.values())
    if not chosen and not given:
        raise InvalidAction("No deliveries are selected; pass ids, or a filter such as state or type.")
    which = _which(alias, filters, () if chosen else default)
    if chosen:
        which["ids"] = chosen
        _refuse_unknown_ids(alias, which)
    for part in operations.batches(alias, limit=limit, **which):
        done += act(alias, part, which["states"])
        if progress is not None:
            progress(len(part))
    if not (done.ids or done.left):
        _refuse_unknown_type(filters.get("type"))
    return done


def _refuse_unknown_ids(alias: str, which: Which) -> None:
    """One unknown id stops the whole call: it may be a typing mistake."""
    found = {each for part in operations.batches(alias, **which) for each in part}
    if unknown := sorted(set(which["ids"]) - found):
        raise InvalidAction(
            f"No delivery that matches has the id {', '.join(map(str, unknown))}; it was delivered or discarded, or "
            "never existed. `duebox deliveries list` lists those that are stored."
        )


def _which(alias: str, filters: Filters, default: Sequence[str] = ()) -> Which:
    group, about = filters.get("group"), filters.get("about")
    states = _states(filters.get("state")) or (["dead"] if group and len(default) > 1 else list(default))
    which = Which(
        states=states,
        organization=filters.get("organization"),
        correlation_id=filters.get("correlation_id"),
        about=None if about is None else aggregate_of(about, error=InvalidAction),
        since=filters.get("since"),
        subscriber=_subscriber(alias, filters),
    )
    if pattern := filters.get("type"):
        which["type"] = _type(pattern, which["subscriber"] or "")
    if group:
        which["group"] = _group(alias, group, states)
    return which


def _states(given: str | Sequence[str] | None) -> list[str]:
    states = [given] if isinstance(given, str) else list(given or ())
    for state in states:
        if state not in STATES:
            raise InvalidAction(f"{state!r} is not a state of a delivery; use one of: {', '.join(STATES)}.")
    return states


def _subscriber(alias: str, filters: Filters) -> str | None:
    handler, destination = filters.get("handler"), filters.get("destination")
    if handler and destination:
        raise InvalidAction("A delivery goes to a handler or to a destination; name one of them.")
    if destination:
        return destination_name(alias, destination)
    return handler_name(alias, handler) if handler else None


def _type(pattern: str, subscriber: str) -> str:
    """The type as it is stored: events for endpoints have public types, and people leave out that prefix."""
    address = Address.parse(subscriber)
    return public(pattern) if address.kind != "handler" and serves_endpoints(address.alias) else pattern


def _refuse_unknown_type(pattern: str | None) -> None:
    """Nothing was found: raise an error if the type is unknown."""
    if pattern and not is_known(public(pattern)) and (said := unlike(pattern, "a delivery")):
        raise InvalidAction(said)


def _group(alias: str, id: str, states: Sequence[str]) -> Group:
    for parked in (False, True):
        wanted = "parked" if parked else "dead"
        if (not states or wanted in states) and (found := operations.group(alias, id, parked=parked)):
            return found
    what = "parked delivery" if list(states) == ["parked"] else "dead letter"
    raise InvalidAction(f"No {what} is in the group {id!r}; `duebox deliveries groups` lists the groups.")


def _entry(what: str, by: str, why: str) -> str:
    if not why.strip():
        raise InvalidAction("The reason is empty; pass a few words for the history.")
    return f"{what} by {by}: {why.strip()}" if by else f"{what}: {why.strip()}"
