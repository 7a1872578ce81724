"""What every destination must do, whatever is behind it. `test_conformance.py` plays it for each stage."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from duebox.destinations.base import Destination, Result
from duebox.events.fact import Fact, FactRow
from duebox.events.identities import uuid7


class Received(NamedTuple):
    """An event as the other side sees it."""

    id: str
    type: str
    data: dict[str, Any]


class Arrived(NamedTuple):
    """All of a message that the other side can read."""

    envelope: dict[str, Any]
    beside: Mapping[str, Any] = MappingProxyType({})
    """Headers, keys, names: whatever the transport carries next to the envelope."""


class Stage:
    """The other side of one destination: a real server, and how to make it misbehave.

    A stage is entered once for each test and makes queues, streams or tables with names of its own, since tests run
    beside each other. It talks to its server through a `Proxy`, so that the wire can be cut; `options` point at the
    proxy.
    """

    backend: ClassVar[str]
    """The dotted path for BACKEND."""
    largest: ClassVar[int | None] = None
    """With this option an event of more bytes is refused here already, without a call; None if nothing is too large."""
    ordered: ClassVar[bool] = False
    """Play it with ORDERED."""

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *exc: object) -> None: ...

    @property
    def options(self) -> dict[str, Any]:
        """OPTIONS, with a timeout of about a second, as JSON can hold them: another process reads them too."""
        raise NotImplementedError

    def arrived(self) -> list[Arrived]:
        """Everything that has arrived so far, repeats included, in the order of arrival."""
        raise NotImplementedError

    def received(self) -> list[Received]:
        """What has arrived, as events."""
        found = [each.envelope for each in self.arrived()]
        return [Received(each["event_id"], each["event_type"], each["data"]) for each in found]

    def away(self) -> Any:
        """A block in which the other side cannot be reached."""
        raise NotImplementedError

    def hanging(self) -> Any:
        """A block in which it takes what is sent and answers nothing."""
        raise NotImplementedError

    def muted(self) -> Any:
        """A block in which it gets what is sent, and its answer is lost."""
        raise NotImplementedError

    def failing(self, ids: set[str]) -> Any:
        """A block in which it does not take the events with these ids, and others in the same batch it does; it may
        take them later."""
        raise NotImplementedError

    def refusing(self, ids: set[str]) -> Any:
        """A block in which it says of these that it will never take them."""
        raise NotImplementedError

    def entry(self) -> dict[str, Any]:
        """For DUEBOX['DESTINATIONS']."""
        quick = {"limit": 20, "first": 0.05, "factor": 1.0, "jitter": 0.0}
        policy = {"RETRY": quick, "BREAKER": False, "ORDERED": self.ordered}
        return {"BACKEND": self.backend, "OPTIONS": self.options, **policy}


INTERNAL = {
    "aggregate_type": "ledger_account", "aggregate_id": "row-90210",
    # Where no request began it, the correlation id of a public event is the id of the event that it was made from.
    "causation": "0198c9d0-0000-7000-8000-00000c0ffee0", "correlation": "0198c9d0-0000-7000-8000-00000c0ffee0",
    "actor": '{"id": "clerk-5150", "type": "user"}', "producer": "https://backoffice.internal", "key": "once-8086",
    "metadata": '{"batch": "nightly-6502"}',
}  # fmt: skip
"""Columns of a public event that nobody outside may see, each with a value that is found nowhere else."""
NAMES_OF_INTERNAL = {
    "aggregate_type", "aggregate_id", "organization_id", "causation_id", "actor", "producer", "idempotency_key",
    "metadata",
}  # fmt: skip


def leaks(arrived: Arrived) -> list[str]:
    """What of `INTERNAL` the other side can read, and where: names in the envelope and beside it, values anywhere."""
    found = [*_paths("envelope", arrived.envelope), *_paths("beside", arrived.beside)]
    values = [each for column in INTERNAL.values() for each in _values(column)]
    return sorted(
        f"{path} = {text}"
        for path, text in found
        if path.rpartition(".")[2].lower().replace("-", "_").removeprefix("duebox_") in NAMES_OF_INTERNAL
        or any(value in text for value in values)
    )


def _values(column: str) -> list[str]:
    return [column] if column[0] != "{" else [each for each in json.loads(column).values() if each != "user"]


def _paths(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every value in it as text, with the way to it."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _paths(f"{path}.{name}", part)
            yield f"{path}.{name}", ""
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _paths(path, part)
    else:
        yield path, value.decode() if isinstance(value, bytes) else str(value)


@contextmanager
def mode(proxy: Any, word: str) -> Iterator[None]:
    """A proxy in another mode, for a block."""
    proxy.set(word)
    try:
        yield
    finally:
        proxy.set("pass")


def a_fact(type: str = "order.paid", data: Mapping[str, Any] | None = None, **columns: Any) -> Fact:
    """An event as the worker hands it over."""
    new = str(uuid7())
    row = FactRow(
        id=new, type=type, version=1, occurred=1_794_736_800.25, aggregate_type="order", aggregate_id="42",
        organization="7", correlation=new, causation=None, actor='{"id": "1", "type": "user"}', 
        producer="https://shop.example", key=None, data=json.dumps(dict(data or {"total": 150})), metadata="{}",
    )  # fmt: skip
    return Fact(row._replace(**columns), attempt=1)


def delivered_by_threads(destination: Destination) -> list[Result]:
    """What four threads get that deliver 600 events through one destination."""
    results: list[Result] = []

    def deliver() -> None:
        for _ in range(3):
            results.extend(destination.deliver([a_fact() for _ in range(50)]))

    threads = [threading.Thread(target=deliver) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results
