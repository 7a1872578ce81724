"""Test helpers: assert what was emitted, and deliver it. Failure messages show the events that were found.

time_travel  a clock that tests move

Works inside Django's TestCase, TransactionTestCase and pytest-django alike, on the connection of the test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from duebox.conf import conf
from duebox.contracts import event_types
from duebox.events import subscribers
from duebox.events.fact import Fact
from duebox.events.identities import About, aggregate_of
from duebox.models import Event
from duebox.schedules import periodic as periodic_functions
from duebox.schedules import plans, sweeps
from duebox.signals import emitted
from duebox.testing.time_travel import Traveller, travel
from duebox.worker.drain import Drained, patterns
from duebox.worker.drain import drain as _drain

__all__ = [
    "Drained", "Outbox", "Traveller", "assert_emitted", "captured", "drain", "forget", "refute_emitted", "travel",
]  # fmt: skip


class Outbox(list[Fact]):
    """Events in the order in which they were emitted, also those of transactions that were rolled back.

    The methods query the database: they are the functions of `duebox.testing` of the same names.
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
    """Return the last stored event that matches; `data` may be a subset of its data. Fail if there is none, or if there
    are not exactly `count`."""
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
    """Fail if an event matches."""
    found = _matching(type, data, about, organization, idempotency_key, using)
    if found:
        asked = _asked(type, data, about, organization, idempotency_key)
        raise AssertionError(f"{len(found)} events {asked}, none was expected.\n{_what_is_there(using)}")


def drain(
    *, only: str | Sequence[str] = (), using: str | None = None, limit: int = 1000, raises: bool = True
) -> Drained:
    """Deliver everything that is due, including events that handlers emit meanwhile; with `only`, to handlers whose
    names match.

    The first error of a handler is raised at the end, unless `raises` is False. `EndlessDrain` is raised after `limit`
    deliveries.
    """
    drained = _drain(using=using, only=patterns(only), limit=limit)
    if raises and drained.errors:
        raise drained.errors[0]
    return drained


def forget(
    *,
    event: str | None = None,
    handler: str | None = None,
    periodic: str | None = None,
    plan: str | None = None,
    sweep: str | None = None,
) -> None:
    """Undo a declaration, by its name: of an event type with all its versions, a handler, a periodic function, a plan
    or a sweep. Raises KeyError where there is none."""
    for name, remove in (
        (event, event_types.forget),
        (handler, subscribers.remove),
        (periodic, periodic_functions.remove),
        (plan, plans.remove),
        (sweep, sweeps.remove),
    ):
        if name is not None:
            remove(name)


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
