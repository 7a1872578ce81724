"""For your tests: see what was emitted, deliver it, and fail with messages that show what was found.

Works inside Django's TestCase, TransactionTestCase and pytest-django alike, on the connection of the test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from duebox.conf import conf
from duebox.emit import About, aggregate_of
from duebox.fact import Fact
from duebox.models import Event
from duebox.signals import emitted
from duebox.travel import Traveller, travel
from duebox.worker.drain import Drained
from duebox.worker.drain import drain as _drain

__all__ = ["Drained", "Traveller", "assert_emitted", "captured", "drain", "refute_emitted", "travel"]


@contextmanager
def captured() -> Iterator[list[Fact]]:
    """The events emitted inside the block, in order, also those of transactions that were rolled back."""
    facts: list[Fact] = []

    def note(*, fact: Fact, **kwargs: Any) -> None:
        facts.append(fact)

    emitted.connect(note, weak=False)
    try:
        yield facts
    finally:
        emitted.disconnect(note)


def assert_emitted(
    type: str,
    data: Mapping[str, Any] | None = None,
    *,
    about: About = None,
    organization: object = None,
    key: str | None = None,
    count: int | None = None,
    using: str | None = None,
) -> Event:
    """The last stored event that matches; `data` need only be a part of its data. Fails if there is none, or if
    there are not exactly `count`."""
    found = _matching(type, data, about, organization, key, using)
    if not found or (count is not None and len(found) != count):
        wanted = "no event" if not found else f"{len(found)} events instead of {count}"
        raise AssertionError(f"{wanted} {_asked(type, data, about, organization, key)}.\n{_what_is_there(using)}")
    return found[-1]


def refute_emitted(
    type: str,
    data: Mapping[str, Any] | None = None,
    *,
    about: About = None,
    organization: object = None,
    key: str | None = None,
    using: str | None = None,
) -> None:
    """Fails if an event matches."""
    found = _matching(type, data, about, organization, key, using)
    if found:
        asked = _asked(type, data, about, organization, key)
        raise AssertionError(f"{len(found)} events {asked}, none was expected.\n{_what_is_there(using)}")


def drain(*, using: str | None = None, limit: int = 1000, raises: bool = True) -> Drained:
    """Deliver everything that is due, including what handlers emit on the way.

    The first error of a handler is raised at the end, unless `raises` is False. `EndlessDrain` after `limit`.
    """
    drained = _drain(using=using, limit=limit)
    if raises and drained.errors:
        raise drained.errors[0]
    return drained


def _matching(
    type: str,
    data: Mapping[str, Any] | None,
    about: About,
    organization: object,
    key: str | None,
    using: str | None,
) -> list[Event]:
    events = Event.objects.using(using or conf().DATABASE).filter(type=type).order_by("id")
    if data is not None:
        events = events.filter(data__contains=dict(data))
    if about is not None:
        aggregate_type, aggregate_id = aggregate_of(about)
        events = events.filter(aggregate_type=aggregate_type, aggregate_id=aggregate_id)
    if organization is not None:
        events = events.filter(organization=str(getattr(organization, "pk", organization)))
    if key is not None:
        events = events.filter(idempotency_key=key)
    return list(events)


def _asked(type: str, data: Mapping[str, Any] | None, about: About, organization: object, key: str | None) -> str:
    options = {"data": data, "about": about, "organization": organization, "key": key}
    given = ", ".join(f"{name}={value!r}" for name, value in options.items() if value is not None)
    return f"{type!r} with {given}" if given else f"{type!r}"


def _what_is_there(using: str | None) -> str:
    events = list(Event.objects.using(using or conf().DATABASE).order_by("-id")[:10])
    if not events:
        return "No event was emitted at all."
    lines = [f"  {event.type} about {event.aggregate_type}:{event.aggregate_id} {event.data}" for event in events]
    return "The last events, newest first:\n" + "\n".join(lines)
