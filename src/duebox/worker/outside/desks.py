"""The desks of a worker: one for each destination, or part of one, that has something to deliver."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from duebox.destinations.base import Destination
from duebox.destinations.subscription import Subscription
from duebox.destinations.terms import Terms
from duebox.store import gates
from duebox.subscribers import OUTSIDE
from duebox.worker.outside.desk import Desk, kind_of

logger = logging.getLogger("duebox.worker")

COMPLAIN_SECONDS = 60.0
PACES = 20_000


class Desks:
    def __init__(self, using: str, subscriptions: Mapping[str, Subscription]) -> None:
        self._using = using
        self._subscriptions = subscriptions
        self._desks: dict[str, Desk] = {}
        self._complained: dict[str, float] = {}
        self._paces: dict[str, float] = {}
        """Of those that have nothing to do for now: who answered quickly last time will do so again."""

    def __getitem__(self, name: str) -> Desk:
        return self._desks[name]

    def __iter__(self) -> Iterator[Desk]:
        return iter(list(self._desks.values()))

    def find(self, name: str) -> Desk | None:
        return self._desks.get(name)

    def knows(self, name: str) -> bool:
        return _alias(name) in self._subscriptions

    def kind(self, name: str) -> str:
        desk = self._desks.get(name)
        return desk.kind if desk else kind_of(self._paces.get(name))

    def waiting(self) -> Counter[str]:
        """How many of each kind have something to carry."""
        return Counter(desk.kind for desk in self if desk.waiting)

    def prepare(self, names: list[str]) -> None:
        """These are about to be opened."""
        keys: dict[str, list[str]] = {}
        for name in names:
            if "/" in name:
                keys.setdefault(_alias(name), []).append(name.partition("/")[2])
        for alias, some in keys.items():
            try:
                self._subscriptions[alias].destination(self._using).prepare(some)
            except Exception as error:
                self._complain(f"{OUTSIDE}{alias}", error)

    def open(self, name: str) -> Desk | None:
        """The desk of a destination as it is configured now; None where it cannot be had, whatever the reason: it must
        not keep the others from being served."""
        try:
            destination, terms = self._destination(name)
        except Exception as error:
            self._complain(name, error)
            return None
        desk = self._desks.get(name)
        if desk is None:
            desk = self._desks[name] = Desk(name, destination, terms, pace=self._paces.pop(name, None))
        desk.destination, desk.terms = destination, terms
        if desk.bucket and not desk.has_bucket:
            gates.make(self._using, {name: desk.bucket})
            desk.has_bucket = True
        return desk

    def is_broken(self, name: str) -> bool:
        return name in self._complained

    def forget(self, desk: Desk) -> None:
        self._desks.pop(desk.name, None)
        if desk.pace is not None:
            self._paces[desk.name] = desk.pace
            if len(self._paces) > PACES:
                del self._paces[next(iter(self._paces))]

    def without(self, names: Collection[str]) -> list[Desk]:
        """Those that none of these names is of."""
        return [desk for desk in self if desk.name not in names]

    def _destination(self, name: str) -> tuple[Destination, Terms]:
        _, _, key = name.partition("/")
        subscription = self._subscriptions[_alias(name)]
        whole = subscription.destination(self._using)
        self._complained.pop(name, None)
        if not key:
            return whole, subscription.terms
        part = whole.part(key)
        rate, burst = part.terms.rate, part.terms.burst
        return part, replace(subscription.terms, rate=rate, burst=burst) if rate else subscription.terms

    def _complain(self, name: str, error: Exception) -> None:
        if time.monotonic() > self._complained.get(name, float("-inf")) + COMPLAIN_SECONDS:
            self._complained[name] = time.monotonic()
            logger.error("destination cannot be used, its events wait: name=%s error=%r", name, error)


def _alias(name: str) -> str:
    return name.removeprefix(OUTSIDE).partition("/")[0]
