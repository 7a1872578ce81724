"""Texts that break pages, terminals and logs, in every place where a text is stored: for what must show them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connection

import duebox
from duebox.models import Delivery, Event, Schedule, WebhookEndpoint
from duebox.testing import drain

MARK = "<script>alert(1)</script>"
FAKE = "FAKE 1 delivered"
CONTROLS = "\n\r\t\x1b[31m\x07\u202e\u2028\x85"
"""New lines of four kinds, a colour and a bell for a terminal, and what turns the direction of a text around."""
HOSTILE = f"'\"{MARK}&{{{{ x }}}}%s\u05d0\u05d1{CONTROLS}{FAKE}"
LONG = HOSTILE + "x" * 10_000
ACCEPTED = f"'\"{MARK}&{{{{ x }}}}%s\u05d0\u05d1"
"""What `emit` and `schedule` take: no control characters, and up to 400."""
SETTINGS = {
    "UNDECLARED": "allow",
    "OUTSIDE_TRANSACTION": "allow",
    "PAYLOAD_LIMIT_BYTES": 60_000_000,
    "DESTINATIONS": {"hooks": {"BACKEND": "duebox.destinations.webhooks.Webhooks"}},
}


def huge() -> dict[str, Any]:
    """50 MB as JSON."""
    return {"rows": [f"{MARK}{number}" + "x" * 10_000 for number in range(5_000)]}


class Scene:
    """An event with a dead letter, a schedule and an endpoint, whose names are `text`."""

    def __init__(self, on: Any, text: str, data: dict[str, Any] | None = None) -> None:
        @on("order.paid", name="shop.receipts", retry=0)
        def refuse(event: Any) -> None:
            raise ValueError(LONG)

        self.text = text
        entity = ("shop.order", ACCEPTED)
        fact = duebox.emit(
            "order.paid", data or {"text": HOSTILE}, about=entity, idempotency_key=ACCEPTED, correlation_id="req-1",
            organization=ACCEPTED, actor={"type": "user", "id": ACCEPTED}, metadata={"text": HOSTILE},
        )  # fmt: skip
        schedule = duebox.schedule(
            "order.review_due", data or {"text": HOSTILE}, after=timedelta(days=1), about=entity, key=ACCEPTED,
            organization=ACCEPTED, metadata={"text": HOSTILE},
        )  # fmt: skip
        drain(raises=False)
        endpoint = WebhookEndpoint.objects.create(
            organization=ACCEPTED, url="https://example.com/hook", types=["*"], secret="", description=HOSTILE
        )
        self.event = Event.objects.defer("data").get(id=fact.id)
        self.delivery = Delivery.objects.get(event_id=fact.id)
        self.schedule = Schedule.objects.defer("data").get(id=schedule.id)
        self.endpoint = endpoint
        if text != ACCEPTED:
            self._written_by_another_program()

    def _written_by_another_program(self) -> None:
        """Rows can also come from SQL, where no check of Duebox has seen them."""
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
        short = self.text[:2_000]  # what has an index cannot be longer
        names = {"aggregate_id": short, "organization": self.text, "correlation_id": short}
        Event.objects.filter(id=self.event.id).update(idempotency_key=short, producer=self.text, **names)
        Schedule.objects.filter(id=self.schedule.id).update(key=short, plan=short, **names)
        WebhookEndpoint.objects.filter(id=self.endpoint.id).update(organization=short, description=self.text)
        for row in (self.event, self.schedule, self.endpoint):
            row.refresh_from_db(fields=[each.name for each in row._meta.fields if each.name != "data"])
