"""A project in the middle of its day: events delivered, retried and dead, schedules, destinations, audit entries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import connection
from django.utils import timezone

import duebox
from duebox.context.origins import bound
from duebox.destinations import registry
from duebox.models import Attempt, Delivery
from duebox.observe import rollup
from duebox.store import leases
from duebox.store import rollup as store
from duebox.testing import drain
from duebox.when import cron, daily

SETTINGS = {
    "UNDECLARED": "allow",
    "OUTSIDE_TRANSACTION": "allow",
    "DESTINATIONS": {
        "bus": {"BACKEND": "tests.app.outside.Post"},
        "warehouse": {"BACKEND": "tests.app.outside.Post"},
        "hooks": {"BACKEND": "duebox.destinations.webhooks.Webhooks"},
    },
    "ROUTES": [{"match": "order.*", "to": "bus"}, {"match": "order.paid", "to": "warehouse"}],
}


class Scene:
    """Call `play` in a test that has the fixtures `on`, `declare` and `settings`; `hour` makes a busy hour."""

    def __init__(self, on: Any, declare: Any, settings: Any) -> None:
        self.on, self.declare, self.settings = on, declare, settings
        self.broken = True
        self.delivered: list[Any] = []

    def play(self, *, hour: bool = False) -> Scene:
        self.settings.DUEBOX = SETTINGS
        self._declare()
        if hour:
            self._history()
        for number in range(8):
            self._order(number)
        drain(raises=False)
        duebox.emit("order.paid", {"number": "A-9"}, about=("shop.order", 9), organization="acme")
        registry.pause("default", "to:warehouse", "the warehouse moves this weekend")
        self._schedules()
        duebox.audit("member.removed", ("member", 42), changes={"role": ("admin", None)}, actor=7, reason="left")
        leases.take("default", 3600.0)
        return self

    def _declare(self) -> None:
        @self.declare("order.paid", owner="shop", aggregate="shop.order")
        class OrderPaid:
            """An order was paid in full."""

            number: str

        @self.declare("order.paid", version=2, owner="shop", aggregate="shop.order", upcast=lambda data: data)
        class OrderPaidAgain:
            """An order was paid in full."""

            number: str
            total: int | None = None

        @self.on("order.paid", name="shop.receipts")
        def write_receipt(event: Any) -> None:
            self.delivered.append(event)
            duebox.emit("receipt.written", {"number": event.data["number"]}, about=("shop.order", event.about.id))

        @self.on("order.paid", name="insurance.report")
        def report(event: Any) -> None:
            if self.broken and int(event.about.id) % 3 == 0:
                raise duebox.Permanent(f"The insurance refused order {event.about.id}: no contract")

        @self.on("receipt.written", name="mail.send")
        def send(event: Any) -> None:
            if int(event.about.id) == 4:
                raise ConnectionError("mail.example:587 does not answer")

    def _order(self, number: int) -> None:
        with bound(correlation_id=f"req-{number:04}-{uuid4().hex[:8]}", actor=7):
            duebox.emit("order.paid", {"number": f"A-{number}"}, about=("shop.order", number), organization="acme")

    def _schedules(self) -> None:
        now = timezone.now()
        for number in range(12):
            duebox.schedule(
                "order.review_due", {"number": f"A-{number}"}, about=("shop.order", number),
                at=now + timedelta(minutes=47 * number + 20), key=f"review:{number}",
            )  # fmt: skip
        duebox.schedule("report.due", {}, repeat=cron("0 9 * * 1-5"), zone="Europe/Paris", key="report:daily")
        duebox.schedule("newsletter.due", {}, repeat=daily("18:30"), zone="America/New_York", key="newsletter")
        duebox.pause("newsletter")
        duebox.cancel("review:11")

    def _history(self) -> None:
        """As if it had gone on for an hour; and counted."""
        rows = []
        now = timezone.now()
        for minute in range(60, 1, -1):
            for number in range(18 + minute % 7 * 3 + (30 if minute in (19, 20, 21, 22) else 0)):
                due = now - timedelta(minutes=minute, seconds=number)
                failed = number % 19 == 0
                rows.append(
                    Attempt(
                        event_id=uuid4(), delivery_id=0, number=1, due_at=due, took_ms=12 + number,
                        subscriber="to:bus" if number % 2 else "shop.receipts",
                        outcome="retried" if failed else "delivered",
                        started_at=due + timedelta(milliseconds=3 + number + (900 if minute in (20, 21) else 0)),
                        settled_at=due + timedelta(milliseconds=40 + number),
                    )
                )  # fmt: skip
        Attempt.objects.bulk_create(sorted(rows, key=lambda row: row.settled_at))
        store.set_progress("default", "first", now.replace(second=0, microsecond=0) - timedelta(hours=1))
        while rollup.roll_up():
            pass

    def dead(self) -> Delivery:
        return Delivery.objects.dead().order_by("id")[0]


def forget_attempts_without_events() -> None:
    """Those that `_history` made up are not shown in lists."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM duebox_attempt WHERE delivery_id = 0")
