from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import transaction

import duebox
from examples.from_celery.after.events import SaleStarted


class Command(BaseCommand):
    help = "Store what is decided by people and not by code: when the sale starts."

    def handle(self, **options: Any) -> None:
        with transaction.atomic():
            duebox.schedule(SaleStarted(name="summer"), at=settings.SALE_AT, key="sale:summer")
