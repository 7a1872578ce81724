from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from examples.from_celery.shop.models import Result


class Command(BaseCommand):
    help = "Show what tasks or handlers have done, in the order in which they did it."

    def handle(self, **options: Any) -> None:
        for row in Result.objects.order_by("at"):
            self.stdout.write(f"{row.at:%H:%M:%S.%f}  {row}")
