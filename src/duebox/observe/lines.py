"""A line of an explanation, and how times, spans and receivers are written for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from duebox.events.address import Address
from duebox.models import DestinationState, Event
from duebox.observe.records import Records
from duebox.when import WhenError, local_time
from duebox.when.times import short

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def span(seconds: float) -> str:
    """0.8 ms, 12 ms, 1.5 s, 5 min, 2 h 10 min, 3 d: no more than two units."""
    if seconds < 1:
        ms = max(0.0, seconds) * 1000
        return f"{ms:.1f} ms".replace(".0 ms", " ms") if ms < 10 else f"{ms:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for (name, size), (below, smaller) in pairwise(_UNITS):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name} {rest} {below}" if rest and whole < 10 * size else f"{whole // size} {name}"
    return f"{whole} s"


def clock(moment: datetime, zone: str) -> str:
    """The date and the local time to the second, without the zone."""
    try:
        local = local_time(moment, zone)
    except WhenError:  # a zone that the database has lost
        local = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{local:%Y-%m-%d %H:%M:%S}"


def local(moment: datetime, zone: str) -> str:
    """The local time with its zone, to the minute unless it has seconds."""
    text = clock(moment, zone)
    return f"{text.removesuffix(':00')} {zone}"


def utc(moment: datetime) -> str:
    return local(moment, "UTC")


def wall(stored: str | datetime) -> str:
    """A local time as a schedule stores it."""
    return (stored if isinstance(stored, str) else short(stored)).replace("T", " ")


def receiver(name: str) -> str:
    """A handler, a destination or an endpoint, as people name it."""
    address = Address.parse(name)
    if address.kind != "destination":
        return f"handler {name!r}"
    return f"{'endpoint' if address.key else 'destination'} {address.plain!r}"


def sentence(text: str) -> str:
    """With a capital letter, unless it begins with the name of an event type, and a full stop."""
    text = text.strip()
    first, blank, rest = text.partition(" ")
    start = first if "." in first else f"{first[:1].upper()}{first[1:]}"
    return f"{start}{blank}{rest}{'' if text.endswith(('.', '!', '?')) else '.'}"


LATE_SECONDS = 1.0
"""What starts sooner after it was due is not called late."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened, is so now, or is to come."""

    at: datetime
    kind: str
    """One word for programs, such as `failed` or `blocked`."""
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able; always with `zone`, the time zone of `local`."""

    @property
    def local(self) -> str:
        return clock(self.at, self.details["zone"])

    def as_dict(self) -> dict[str, Any]:
        return {
            "at": self.at.isoformat(), "local": self.local, "kind": self.kind, "text": self.text,
            "details": dict(self.details),
        }  # fmt: skip


def line(at: datetime, kind: str, text: str, zone: str, details: Mapping[str, Any], **more: Any) -> Line:
    return Line(at, kind, sentence(text), {**details, **more, "zone": zone})


def zone_of(event: Event | None, records: Records) -> str:
    """The time zone for lines about an event: that of the schedule that fired it, or that of the project."""
    due = event.metadata.get("schedule") if event else None
    return str(due["zone"]) if due else records.zone


def late(seconds: float) -> str:
    return f"{span(seconds)} late" if seconds >= LATE_SECONDS else f"{span(seconds)} after it was due"


def workers(records: Records) -> str:
    return "the worker that is alive" if records.workers == 1 else f"one of {records.workers} workers that are alive"


def blocking_state(subscriber: str, records: Records) -> DestinationState | None:
    """What holds a destination or endpoint back now."""
    address = Address.parse(subscriber)
    for name in (address, address.whole) if address.kind == "destination" else ():
        found = records.destination_states.get(str(name))
        if found and (found.paused_at or (found.open_until and found.open_until > records.now)):
            return found
    return None


def may_stop(records: Records, expires: datetime | None, zone: str) -> list[str]:
    """What could keep something that is to come from being delivered."""
    found = [] if records.workers else ["no worker is alive now (start one: manage.py duebox worker)"]
    return found + ([f"it expires at {local(expires, zone)}, and is not run after that"] if expires else [])


def risks(at: datetime, what: str, found: list[str], zone: str, details: Mapping[str, Any]) -> Iterator[Line]:
    if found:
        yield line(at, "risk", f"What could stop {what}: {'; '.join(found)}", zone, details, risks=found)


_MARKS = {
    "gap_shifted_forward": "moved forward, since clocks jump over that time",
    "gap_shifted_backward": "moved back, since clocks jump over that time",
    "gap_next_valid": "moved to the end of the jump, since clocks jump over that time",
    "fold_first": "the first of two such times, since clocks are turned back",
    "fold_second": "the second of two such times, since clocks are turned back",
    "leap_moved": "moved, since the month does not have that day",
    "calendar_moved": "moved, since that day is closed",
    "postponed": "postponed, since its plan could not be asked",
}


def marks(found: Iterable[str]) -> str:
    texts = [_MARKS.get(mark, mark) for mark in found if mark]
    return f" ({'; '.join(texts)})" if texts else ""
