"""A destination: somewhere outside that events are delivered to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from duebox.conf import conf
from duebox.destinations.terms import Terms
from duebox.exceptions import InvalidDestination
from duebox.fact import Fact
from duebox.outcome import Delivered, Discard, Snooze

Result = Delivered | Snooze | Discard | Exception | None
"""How one event of a batch ended. None is "delivered"; an error is judged by the retry policy of the destination:
it is transient unless its class is `Permanent` or below."""

Problem = tuple[str, str]
"""What is wrong with a configuration, and how to repair it."""


class Destination:
    """Write a class of this kind to send events somewhere new, and name it as BACKEND in DUEBOX['DESTINATIONS'].

    There is one object for each alias and process, made on the first delivery and shared by several threads. What
    OPTIONS holds are its keyword arguments. `deliver` must end within its own timeout, and may be called again with
    the same event, whose id stays the same. Import the driver when the object is made, not with the module: a process
    that only emits does without.
    """

    batch_size = 1
    """At most so many events are delivered in one call."""
    keeps_order = False
    """What is sent one after the other is received in that order: ORDERED makes sense."""
    forgets_repeats = False
    """The other side drops an event that comes again, by its id."""
    terms = Terms()
    """How it is served where the settings do not say."""
    match = ""
    """Which events it takes where no route names it."""
    only = ""
    """Events whose type does not begin like this it never takes: a route may narrow that, and not widen it."""
    expands = False
    """An event becomes several deliveries, each to a part of it, known by `to:<alias>/<key>`."""
    only_once = False
    """There can be one alias with this class, or one below it: several would each send everything."""

    def __init__(self, alias: str, **options: Any) -> None:
        if options:
            raise TypeError(f"unexpected {', '.join(options)}")
        self.alias = alias
        self.using = conf().DATABASE
        """The database whose events are delivered; the worker says so where it serves another."""

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        """Send them; an answer for each, in the same order. An error that is raised counts for all of them."""
        raise NotImplementedError

    @classmethod
    def expand(cls, alias: str, facts: Sequence[Fact], using: str) -> None:
        """For one that expands: store a delivery for each part that wants one of the events. Runs in a transaction that
        also settles the expansion."""
        raise NotImplementedError

    def prepare(self, keys: Sequence[str]) -> None:
        """`part` will be called with these: what they need can be read at once."""

    def part(self, key: str) -> Destination:
        """The destination behind `to:<alias>/<key>`, for one that expands into several."""
        raise InvalidDestination(f"Destination {self.alias!r} has no part {key!r}; it is delivered to as a whole.")

    def check(self) -> list[Problem]:
        """Look for mistakes without talking to the other side; for `manage.py check`."""
        return []

    def fails_since(self, since: datetime) -> None:
        """The worker says so now and then while every try since then has failed; for one that wants to warn or to
        give up. Called outside of any transaction."""

    def close(self) -> None:
        """The worker ends; let go of connections."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.alias}>"
