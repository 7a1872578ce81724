"""Webhooks: one endpoint of a real receiver. Which endpoints get an event is played in tests/destinations/webhooks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from standardwebhooks import Webhook

from duebox.destinations.base import Destination, Result
from duebox.destinations.webhooks import Webhooks
from duebox.destinations.webhooks.encryption import encrypted
from duebox.events.fact import Fact
from duebox.models import WebhookEndpoint
from tests.destinations.conformance import Arrived, Received, Stage, mode
from tests.destinations.proxy import Proxy
from tests.destinations.webhooks.receiver import Got, Receiver, Reply

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
REFUSED = 422


class OneEndpoint(Destination):
    """The part of `Webhooks` that one endpoint is, without its row: what is delivered is made public on the way."""

    def __init__(self, alias: str, *, url: str, organization: str, **options: Any) -> None:
        super().__init__(alias)
        self.whole = Webhooks(alias, **options)
        row = WebhookEndpoint(
            url=url, organization=organization, types=["*"], secret=encrypted(SECRET), previous_secret="", headers="",
            disabled_reason="",
        )  # fmt: skip
        self.part_of_it = self.whole.recipient(row)

    def deliver(self, batch: Sequence[Fact]) -> Sequence[Result]:
        public = [fact.row._replace(type=f"public.{fact.type.removeprefix('public.')}") for fact in batch]
        return self.part_of_it.deliver([Fact(row, attempt=1) for row in public])

    def close(self) -> None:
        self.whole.close()


class WebhookStage(Stage):
    backend = f"{__name__}.OneEndpoint"

    def __enter__(self) -> WebhookStage:
        self.receiver = Receiver().__enter__()
        self.receiver.reply = self._reply
        self.proxy = Proxy(self.receiver.port).__enter__()
        self.answers: dict[str, int] = {}
        return self

    def __exit__(self, *exc: object) -> None:
        self.proxy.__exit__(None, None, None)
        self.receiver.__exit__()

    @property
    def options(self) -> dict[str, Any]:
        port = self.proxy.port
        return {
            "url": f"http://127.0.0.1:{port}/hook", "organization": "7", "timeout": 1.0, "http": True, "ports": [port],
            "allow_private": ["127.0.0.1"], "refused": [REFUSED],
        }  # fmt: skip

    def arrived(self) -> list[Arrived]:
        taken = [got for got in list(self.receiver.got) if got.id not in self.answers]
        return [Arrived(got.event, {"path": got.path, **got.headers}) for got in taken]

    def received(self) -> list[Received]:
        found = [each.envelope for each in self.arrived()]
        return [Received(each["id"], each["type"], each["data"]) for each in found]

    def away(self) -> Any:
        return mode(self.proxy, "away")

    def hanging(self) -> Any:
        return mode(self.proxy, "hang")

    def muted(self) -> Any:
        return mode(self.proxy, "mute")

    def failing(self, ids: set[str]) -> Any:
        return self._answering(ids, 500)

    def refusing(self, ids: set[str]) -> Any:
        return self._answering(ids, REFUSED)

    def _reply(self, got: Got) -> Reply:
        Webhook(SECRET).verify(got.body, got.headers)
        assert json.loads(got.body)["workspace_id"] == "7"
        return Reply(self.answers.get(got.id, 200))

    @contextmanager
    def _answering(self, ids: set[str], status: int) -> Iterator[None]:
        before = len(self.receiver.got)
        self.answers = dict.fromkeys(ids, status)
        yield
        self.receiver.got[:] = [
            *self.receiver.got[:before],
            *(got for got in self.receiver.got[before:] if got.id not in self.answers),
        ]
        self.answers = {}


STAGES = [WebhookStage]
