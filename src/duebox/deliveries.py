"""Deliveries in any state: find them, see what happened to them, retry, park and discard them.

What `manage.py duebox deliveries` does, as functions. A delivery is one event for one handler or destination; it is
stored until it is delivered. Every action leaves a line in the history that says who asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TypedDict, Unpack

from duebox.conf import conf
from duebox.destinations.known_names import destination_name, handler_name, serves_endpoints
from duebox.exceptions import InvalidAction
from duebox.identities import About, aggregate_of
from duebox.models.delivery import STATES
from duebox.store import backlog as store_backlog
from duebox.store import operations, streams
from duebox.store.backlog import Orphaned
from duebox.store.event_types import is_known, public, unlike
from duebox.store.operations import Done, Group, OpenDelivery, Which
from duebox.store.pace import Pace
from duebox.store.streams import Blocked
from duebox.store.targets import FAN_OUT
from duebox.subscribers import OUTSIDE

__all__ = [
    "STATES", "Blocked", "Done", "Filters", "Group", "OpenDelivery", "Orphaned", "blocked", "discard", "find", "get",
    "groups", "orphaned", "park", "retry",
]  # fmt: skip

FAILED = ("dead", "retrying")
"""What `retry` takes where no state is said."""


class Filters(TypedDict, total=False):
    """Which deliveries are meant; what is left out does not matter."""

    state: str | Sequence[str] | None
    type: str | None
    handler: str | None
    destination: str | None
    group: str | None
    organization: str | None
    correlation_id: str | None
    about: About
    since: datetime | None


def find(*, limit: int | None = 50, using: str | None = None, **filters: Unpack[Filters]) -> list[OpenDelivery]:
    """Deliveries that match all filters, in any state where none is said. Pending ones come in the order in which they
    are due, others in the order of their ids."""
    alias = using or conf().DATABASE
    found = operations.find(alias, limit=limit, **_which(alias, filters))
    if not found:
        _refuse_unknown_type(filters.get("type"))
    return found


def get(id: int, *, using: str | None = None) -> OpenDelivery | None:
    """The delivery with this id; None where there is none, or where it was delivered or discarded."""
    found = operations.find(using or conf().DATABASE, ids=[id])
    return found[0] if found else None


def groups(*, limit: int = 50, using: str | None = None, **filters: Unpack[Filters]) -> list[Group]:
    """Dead letters by event type, receiver and cause, the largest group first; or `state="parked"` ones."""
    alias = using or conf().DATABASE
    for name in ("about", "correlation_id"):
        if filters.get(name) is not None:
            raise InvalidAction(f"Groups are not asked for by {name}; find() the deliveries.")
    which = _which(alias, filters, ("dead",))
    if which["states"] not in (["dead"], ["parked"]):
        raise InvalidAction("Only dead or parked deliveries have groups; pass state='dead' or state='parked'.")
    found = operations.groups(alias, parked=which["states"] == ["parked"], limit=limit, **which)
    if not found:
        _refuse_unknown_type(filters.get("type"))
    return found


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

    By ids, or by filters: then those that are dead or retrying, unless `state` says others. `rate` lets so many a
    second become due. A running one is left alone, and so is one that nobody could take.
    """
    pace, note = Pace(rate), f"retried by {by}" if by else "retried"

    def act(alias: str, part: list[int], states: Sequence[str]) -> Done:
        return operations.retry(alias, part, note=note, pace=pace, states=states, dry_run=dry_run)

    return _act(act, ids, filters, FAILED, limit=limit, using=using, progress=progress)


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
    """Set deliveries aside, so that no worker takes them until they are retried. By ids in any state but running, or by
    filters: then those that are dead, unless `state` says others. One in an ordered stream blocks those behind it."""
    told = _told("parked", by, note)

    def act(alias: str, part: list[int], states: Sequence[str]) -> Done:
        return operations.park(alias, part, note=told, states=states, dry_run=dry_run)

    return _act(act, ids, filters, ("dead",), limit=limit, using=using, progress=progress)


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
    """Give deliveries up for good. By ids in any state but running, or by filters: then those that are dead, unless
    `state` says others. The event and the history stay; an ordered stream that waited goes on."""
    told = _told("discarded", by, reason)

    def act(alias: str, part: list[int], states: Sequence[str]) -> Done:
        return operations.discard(alias, part, note=told, states=states, dry_run=dry_run)

    return _act(act, ids, filters, ("dead",), limit=limit, using=using, progress=progress)


def blocked(
    *, handler: str | None = None, destination: str | None = None, limit: int = 50, using: str | None = None
) -> list[Blocked]:
    """Ordered streams that do not move because their first delivery is dead, parked, retrying or snoozed; those with
    the most behind it first."""
    alias = using or conf().DATABASE
    subscriber = _subscriber(alias, Filters(handler=handler, destination=destination))
    return streams.blocked(alias, subscriber=subscriber, limit=limit)


def orphaned(*, using: str | None = None) -> list[Orphaned]:
    """Handlers and destinations that this code does not have, for which deliveries are stored."""
    return store_backlog.orphaned(store_backlog.backlog(using or conf().DATABASE))


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
    """Find those that are meant and deal with them, a part at a time."""
    alias, chosen, done = using or conf().DATABASE, list(ids), Done()
    given = any(value is not None for value in filters.values())
    if not chosen and not given:
        raise InvalidAction("Say which deliveries: by their ids, or by a filter such as state or type.")
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
    """One wrong id stops all: it may be a slip of the keyboard."""
    found = {each for part in operations.batches(alias, **which) for each in part}
    if missing := sorted(set(which["ids"]) - found):
        raise InvalidAction(
            f"No delivery that matches has the id {', '.join(map(str, missing))}; it was delivered or discarded, or "
            "never was. `duebox deliveries list` lists those that are stored."
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
            raise InvalidAction(f"{state!r} is no state of a delivery; there are: {', '.join(STATES)}.")
    return states


def _subscriber(alias: str, filters: Filters) -> str | None:
    handler, destination = filters.get("handler"), filters.get("destination")
    if handler and destination:
        raise InvalidAction("A delivery goes to a handler or to a destination; name one of them.")
    if destination:
        return destination_name(alias, destination)
    return handler_name(alias, handler) if handler else None


def _type(pattern: str, subscriber: str) -> str:
    """As events have it: those that go to endpoints are public, and people leave that word out."""
    alias = subscriber.removeprefix(FAN_OUT).removeprefix(OUTSIDE).partition("/")[0]
    return public(pattern) if alias and serves_endpoints(alias) else pattern


def _refuse_unknown_type(pattern: str | None) -> None:
    """Nothing was found: perhaps because nobody knows the type."""
    if pattern and not is_known(public(pattern)) and (said := unlike(pattern, "a delivery")):
        raise InvalidAction(said)


def _group(alias: str, id: str, states: Sequence[str]) -> Group:
    for parked in (False, True):
        wanted = "parked" if parked else "dead"
        if (not states or wanted in states) and (found := operations.group(alias, id, parked=parked)):
            return found
    what = "parked delivery" if list(states) == ["parked"] else "dead letter"
    raise InvalidAction(f"No {what} is in the group {id!r}; `duebox deliveries groups` lists the groups.")


def _told(what: str, by: str, why: str) -> str:
    if not why.strip():
        raise InvalidAction("Say why in a few words; whoever reads the history will want to know.")
    return f"{what} by {by}: {why.strip()}" if by else f"{what}: {why.strip()}"
