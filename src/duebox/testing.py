"""For your tests: see what was emitted, deliver it, and fail with messages that show what was found.

Works inside Django's TestCase, TransactionTestCase and pytest-django alike, on the connection of the test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from duebox.conf import conf
from duebox.fact import Fact
from duebox.identities import About, aggregate_of
from duebox.models import Event
from duebox.signals import emitted
from duebox.travel import Traveller, travel
from duebox.worker.drain import Drained, patterns
from duebox.worker.drain import drain as _drain

__all__ = ["Drained", "Outbox", "Traveller", "assert_emitted", "captured", "drain", "refute_emitted", "travel"]


class Outbox(list[Fact]):
    """Events in the order in which they were emitted, also those of transactions that were rolled back.

    The methods ask the database: they are those functions of `duebox.testing`.
    """

    @property
    def types(self) -> list[str]:
        """The type of each event."""
        return [fact.type for fact in self]

    def assert_emitted(self, type: str, data: Mapping[str, Any] | None = None, **match: Any) -> Event:
        return assert_emitted(type, data, **match)

    def refute_emitted(self, type: str, data: Mapping[str, Any] | None = None, **match: Any) -> None:
        refute_emitted(type, data, **match)

    def drain(self, **options: Any) -> Drained:
        return drain(**options)


@contextmanager
def captured() -> Iterator[Outbox]:
    """The events emitted inside the block, in order, also those of transactions that were rolled back."""
    facts = Outbox()

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
    idempotency_key: str | None = None,
    count: int | None = None,
    using: str | None = None,
) -> Event:
    """The last stored event that matches; `data` need only be a part of its data. Fails if there is none, or if
    there are not exactly `count`."""
    found = _matching(type, data, about, organization, idempotency_key, using)
    if not found or (count is not None and len(found) != count):
        wanted = "no event" if not found else f"{len(found)} events instead of {count}"
        raise AssertionError(
            f"{wanted} {_asked(type, data, about, organization, idempotency_key)}.\n{_what_is_there(using)}"
        )
    return found[-1]


def refute_emitted(
    type: str,
    data: Mapping[str, Any] | None = None,
    *,
    about: About = None,
    organization: object = None,
    idempotency_key: str | None = None,
    using: str | None = None,
) -> None:
    """Fails if an event matches."""
    found = _matching(type, data, about, organization, idempotency_key, using)
    if found:
        asked = _asked(type, data, about, organization, idempotency_key)
        raise AssertionError(f"{len(found)} events {asked}, none was expected.\n{_what_is_there(using)}")


def drain(
    *, only: str | Sequence[str] = (), using: str | None = None, limit: int = 1000, raises: bool = True
) -> Drained:
    """Deliver everything that is due, including what handlers emit on the way, or only to handlers whose names match.

    The first error of a handler is raised at the end, unless `raises` is False. `EndlessDrain` after `limit`.
    """
    drained = _drain(using=using, only=patterns(only), limit=limit)
    if raises and drained.errors:
        raise drained.errors[0]
    return drained


def _matching(
    type: str,
    data: Mapping[str, Any] | None,
    about: About,
    organization: object,
    idempotency_key: str | None,
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
    if idempotency_key is not None:
        events = events.filter(idempotency_key=idempotency_key)
    return list(events)


def _asked(
    type: str, data: Mapping[str, Any] | None, about: About, organization: object, idempotency_key: str | None
) -> str:
    options = {"data": data, "about": about, "organization": organization, "idempotency_key": idempotency_key}
    given = ", ".join(f"{name}={value!r}" for name, value in options.items() if value is not None)
    return f"{type!r} with {given}" if given else f"{type!r}"


def _what_is_there(using: str | None) -> str:
    events = list(Event.objects.using(using or conf().DATABASE).order_by("-id")[:10])
    if not events:
        return "No event was emitted at all."
    lines = [f"  {event.type} about {event.aggregate_type}:{event.aggregate_id} {event.data}" for event in events]
    return "The last events, newest first:\n" + "\n".join(lines)
