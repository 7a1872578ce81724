from __future__ import annotations

import json
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.management.base import BaseCommand
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask

TASKS = "examples.from_celery.before.tasks"


class Command(BaseCommand):
    help = "Store the periodic tasks, as somebody would do in the admin."

    def handle(self, **options: Any) -> None:
        minute, hour, day_of_month, month_of_year, day_of_week = settings.REPORT_CRON.split()
        at_nine, _ = CrontabSchedule.objects.get_or_create(
            minute=minute, hour=hour, day_of_month=day_of_month, month_of_year=month_of_year, day_of_week=day_of_week,
            timezone=ZoneInfo(settings.REPORT_ZONE),
        )  # fmt: skip
        PeriodicTask.objects.get_or_create(
            name="morning report", defaults={"task": f"{TASKS}.morning_report", "crontab": at_nine}
        )
        often, _ = IntervalSchedule.objects.get_or_create(every=settings.STOCK_SECONDS, period=IntervalSchedule.SECONDS)
        PeriodicTask.objects.get_or_create(
            name="check stock", defaults={"task": f"{TASKS}.check_stock", "interval": often}
        )
        at_once, _ = ClockedSchedule.objects.get_or_create(clocked_time=settings.SALE_AT)
        PeriodicTask.objects.get_or_create(
            name="summer sale",
            defaults={
                "task": f"{TASKS}.start_sale", "clocked": at_once, "one_off": True, "args": json.dumps(["summer"]),
            },
        )  # fmt: skip
