from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import transaction


class Command(BaseCommand):
    help = "Place an order, and one that is rolled back: nothing may be seen of that."

    def handle(self, **options: Any) -> None:
        orders = import_module(settings.ORDERS)
        orders.place("A-1")
        try:
            with transaction.atomic():
                orders.place("A-2")
                raise ConnectionAbortedError("the customer's browser is gone")
        except ConnectionAbortedError:
            self.stdout.write("A-1 was placed, A-2 was rolled back")
