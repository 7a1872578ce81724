from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from duebox.destinations.registry import subscriptions
from duebox.destinations.webhooks import Webhooks
from duebox.destinations.webhooks import endpoints as api
from duebox.models import WebhookEndpoint
from tests.destinations.webhooks.receiver import Receiver, Scripted
from tests.destinations.webhooks.sending import Sender


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as entered:
        yield entered


@pytest.fixture
def configure(settings: Any) -> Iterator[Callable[..., Webhooks]]:
    """Makes webhooks a destination of the project, open for servers of this machine."""
    made: list[Webhooks] = []

    def start(*ports: int, **options: Any) -> Webhooks:
        here = {"http": True, "ports": list(ports), "allow_private": ["127.0.0.1"], "timeout": 2.0}
        entry = {"BACKEND": "duebox.destinations.webhooks.Webhooks", "OPTIONS": {**here, **options}}
        settings.DUEBOX = {"UNDECLARED": "allow", "DESTINATIONS": {"hooks": entry}}
        found = subscriptions()["hooks"].destination()
        assert isinstance(found, Webhooks)
        made.append(found)
        return found

    yield start
    for each in made:
        each.close()


@pytest.fixture
def hooks(configure: Callable[..., Webhooks], receiver: Receiver) -> Webhooks:
    return configure(receiver.port)


@pytest.fixture
def add(db: None, hooks: Webhooks, receiver: Receiver) -> Callable[..., WebhookEndpoint]:
    """An endpoint at the receiver."""

    def create(organization: str = "7", *types: str, path: str = "", **options: Any) -> WebhookEndpoint:
        return api.create(organization, receiver.url + path, types or ["*"], **options).endpoint

    return create


@pytest.fixture
def public(declare: Callable[..., Any]) -> None:
    """Orders, of which others see the total."""

    @declare("order.paid", public={"total"})
    class OrderPaid:
        total: int
        note: str = ""

    @declare("order.shipped", public={"total"})
    class OrderShipped:
        total: int


@pytest.fixture
def sender():
    made = []

    def make(*args, **options):
        made.append(Sender(*args, **options))
        return made[-1]

    yield make
    for each in made:
        each.wire.close()


@pytest.fixture
def scripted():
    opened = []

    def make(play):
        opened.append(Scripted(play).__enter__())
        return opened[-1]

    yield make
    for each in opened:
        each.__exit__()
