"""Send stored events again: one event, those that failed, those that a new subscriber has missed, or all of a period.

A replay creates new deliveries of the stored events, under their ids; the history says who asked. An event that has an
open delivery to a subscriber, due or dead, is skipped: it is never due twice to the same subscriber.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction

from duebox.conf import conf
from duebox.events.fact import PAYLOAD_REMOVED_AT, FactRow
from duebox.exceptions import InvalidReplay
from duebox.models import Delivery, Event
from duebox.store import operations
from duebox.store.operations import Pace
from duebox.store.run_sql import run
from duebox.store.targets import Target, public, target_of, unlike

BATCH = 1_000
OPEN = ["dead", "parked"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_TWIN_WITHIN = timedelta(minutes=10)


@dataclass(slots=True)
class Replayed:
    """What a replay did, or would do."""

    added: int = 0
    """New deliveries."""
    retried: int = 0
    """Dead and parked deliveries that are due again."""
    still_open: int = 0
    """Events that were skipped because they have a delivery that is due, running, dead or parked."""

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """The options of all kinds of replay."""

    by: str = ""
    """Who asks, for the history."""
    rate: float | None = None
    """How many deliveries become due per second; None for all at once."""
    dry_run: bool = False
    using: str | None = None
    progress: Callable[[int], None] | None = None
    """Called with the size of each part that is done."""

    @property
    def alias(self) -> str:
        return self.using or conf().DATABASE

    def note(self, verb: str) -> str:
        return f"replayed by {self.by}: {verb}" if self.by else f"replayed: {verb}"


def resend(event_id: UUID | str, *, to: str, manner: Manner | None = None) -> int:
    """Send one event to one subscriber again, whatever its last outcome. Returns the id of the new delivery."""
    manner = manner or Manner()
    target = target_of(manner.alias, to)
    with transaction.atomic(using=manner.alias):
        run("replay_lock", manner.alias, {"subscriber": target.name})
        _refuse_resend(manner.alias, _whole_id(event_id), target)
        if manner.dry_run:
            return 0
        added = _add(manner, target, [str(_whole_id(event_id))], Pace(), "resend")
        if not added:
            raise InvalidReplay(f"Event {event_id} was removed at this moment, so it cannot be sent again.")
        return added[0]


def take_back(event_id: UUID | str, *, to: str, why: str, manner: Manner | None = None) -> int | None:
    """One event that came back to one subscriber again, also where no route of today leads to it: whoever says so has
    chosen it. None where it is still open there, or was removed at this moment."""
    manner = manner or Manner()
    target = target_of(manner.alias, to)
    with transaction.atomic(using=manner.alias):
        run("replay_lock", manner.alias, {"subscriber": target.name})
        found = _event(manner.alias, _whole_id(event_id), target)
        if not found.is_open:
            return next(iter(_add(manner, target, [found.row.id], Pace(), why)), None)
    return None


def recover(*, to: str, since: datetime, manner: Manner | None = None) -> Replayed:
    """Send again what failed since then: dead and parked deliveries, and those discarded while an endpoint was
    disabled."""
    manner = manner or Manner()
    target, pace, done = target_of(manner.alias, to), Pace(manner.rate), Replayed()
    for name in target.names:
        which = operations.Which(subscriber=name, since=since, states=OPEN)
        if manner.dry_run:
            done.retried += operations.count(manner.alias, **which)
            continue
        for ids in operations.batches(manner.alias, **which):
            back = operations.retry(manner.alias, ids, note=manner.note("recover"), pace=pace, states=OPEN).ids
            done.retried += len(back)
            _tell(manner, len(back))
    _recover_discarded(manner, target, since, pace, done)
    return done


def missing(
    *,
    to: str,
    since: datetime,
    until: datetime | None = None,
    type: str | None = None,
    organization: str | None = None,
    manner: Manner | None = None,
) -> Replayed:
    """Send events that match the target today and have neither a delivery to it nor a line in its history."""
    asked = {"since": since, "until": until, "type": type, "organization": organization}
    return _replay("missing", to, asked, manner or Manner())


def bulk(
    *,
    to: str,
    since: datetime,
    until: datetime,
    type: str | None = None,
    organization: str | None = None,
    manner: Manner | None = None,
) -> Replayed:
    """Send every event of a period that matches the target today."""
    asked = {"since": since, "until": until, "type": type, "organization": organization}
    return _replay("bulk", to, asked, manner or Manner())


def first_id(moment: datetime) -> UUID:
    """The lowest id of this moment: ids from before are lower, later ones higher."""
    return UUID(int=max(0, (moment - _EPOCH) // _MILLISECOND) << 80)


def _replay(verb: str, to: str, asked: dict[str, Any], manner: Manner) -> Replayed:
    since, until = asked["since"], asked["until"]
    if until is not None and until <= since:
        raise InvalidReplay(
            f"The end {until:%Y-%m-%d %H:%M:%S} is not after the beginning {since:%Y-%m-%d %H:%M:%S}; swap them."
        )
    target, pace, done, looked_at = target_of(manner.alias, to), Pace(manner.rate), Replayed(), 0
    asked["type"] = target.spelled(asked["type"])
    after: UUID | None = first_id(since)
    while after is not None:
        with transaction.atomic(using=manner.alias):
            if not manner.dry_run:
                run("replay_lock", manner.alias, {"subscriber": target.name})
            page = _events(manner.alias, target, asked, after)
            wanted = [each for each in page if not (each.known and verb == "missing") and target.takes(each.row)]
            fresh = [each.row.id for each in wanted if not each.is_open]
            if fresh and not manner.dry_run:
                _add(manner, target, fresh, pace, verb)
        done.added += len(fresh)
        done.still_open += len(wanted) - len(fresh)
        looked_at += len(page)
        _tell(manner, len(page))
        after = UUID(page[-1].row.id) if len(page) == BATCH else None
    if not looked_at and (said := unlike(asked["type"] or "*", "an event that was asked for")):
        raise InvalidReplay(said)
    return done


def _recover_discarded(manner: Manner, target: Target, since: datetime, pace: Pace, done: Replayed) -> None:
    after: int | None = 0
    while after is not None:
        with transaction.atomic(using=manner.alias):
            if not manner.dry_run:
                run("replay_lock", manner.alias, {"subscriber": target.name})
            params = {"subscriber": target.name, "since": since, "after": after, "limit": BATCH}
            rows = run("replay_discarded", manner.alias, params)
            if rows and not manner.dry_run:
                _add(manner, target, [row[1] for row in rows], pace, "recover")
        done.added += len(rows)
        _tell(manner, len(rows))
        after = rows[-1][0] if len(rows) == BATCH else None


def _add(manner: Manner, target: Target, events: list[str], pace: Pace, verb: str) -> list[int]:
    params = {
        "event": events, "subscriber": target.name, "ordered": target.ordered, "note": manner.note(verb),
        **pace.params(), "now": None,
    }  # fmt: skip
    added = [row[0] for row in run("replay_add", manner.alias, params)]
    pace.took(len(added))
    return added


class Found(NamedTuple):
    row: FactRow
    is_open: bool
    """Whether it has a delivery to the target."""
    known: bool
    """Whether the history has a delivery to the target."""


def _events(using: str, target: Target, asked: dict[str, Any], after: UUID, limit: int | None = None) -> list[Found]:
    """Events after an id."""
    params = {
        "names": list(target.names),
        "open": [*target.names, target.fan_out],
        "after": after,
        "before": asked["until"] and first_id(asked["until"]),
        "type": operations.like(asked["type"]),
        "organization": target.organization if asked["organization"] is None else asked["organization"],
        "picky": target.picky,
        "limit": limit or BATCH,
    }
    return [Found(FactRow(*row[:-2]), *row[-2:]) for row in run("replay_events", using, params)]


def _event(using: str, event_id: UUID, target: Target) -> Found:
    anything = dict.fromkeys(("until", "type", "organization"))
    found = _events(using, target, anything, UUID(int=max(0, event_id.int - 1)), limit=1)
    if not found or found[0].row.id != str(event_id):
        if Event.objects.using(using).filter(id=event_id, metadata__has_key=PAYLOAD_REMOVED_AT).exists():
            raise InvalidReplay(
                f"The payload of event {event_id} was removed, so it cannot be sent again; emit a new one."
            )
        raise InvalidReplay(f"There is no event {event_id} for {target.name!r}; look at its id and its organization.")
    return found[0]


def _refuse_resend(using: str, event_id: UUID, target: Target) -> None:
    row, is_open, known = _event(using, event_id, target)
    if target.only_public(row.type):
        raise InvalidReplay(f"{target.name!r} takes public events only{_twin(using, row, target)}")
    if not target.may(row) or not (known or target.takes(row)):
        raise InvalidReplay(
            f"{target.name!r} does not take {row.type}; `duebox events routes {row.type}` says who does."
        )
    if is_open:
        raise InvalidReplay(
            f"{row.type} {row.id} is still open for {target.name!r}; make that delivery due now: "
            f"manage.py duebox deliveries retry {_open_delivery(using, row.id, target)}"
        )


def _open_delivery(using: str, event_id: str, target: Target) -> str:
    rows = Delivery.objects.using(using).filter(event_id=event_id, subscriber__in=[*target.names, target.fan_out])
    return str(rows.order_by("id").values_list("id", flat=True).first() or "")


def _twin(using: str, row: FactRow, target: Target) -> str:
    """It was made right after its event, so its id is not far."""
    after = UUID(row.id)
    before = UUID(int=min(after.int + (_TWIN_WITHIN // _MILLISECOND << 80), 2**128 - 1))
    near = Event.objects.using(using).filter(id__gt=after, id__lt=before, causation_id=after, type=public(row.type))
    twin = near.order_by("id").values_list("id", flat=True).first()
    if twin is None:
        return f", and {row.type} has no public event."
    return f"; send the public event of {row.type}: manage.py duebox events replay resend {twin} --to {target.name}"


def _whole_id(event_id: UUID | str) -> UUID:
    try:
        return UUID(str(event_id))
    except ValueError:
        raise InvalidReplay(f"{str(event_id)[:80]!r} is not the id of an event; give a UUID.") from None


def _tell(manner: Manner, many: int) -> None:
    if manner.progress is not None and many:
        manner.progress(many)
