from __future__ import annotations

from django.conf import settings

import duebox
from duebox.when import cron, every
from examples.from_celery.shop.gateway import GatewayDown, charge
from examples.from_celery.shop.models import Order, Result


@duebox.on("order.placed")
def send_receipt(event: duebox.Fact) -> None:
    Result.objects.create(what="receipt", text=event.data["number"])


RETRY = duebox.Retry(limit=5, first=1, factor=2, cap=600, jitter=0, permanent=(Exception,), transient=(GatewayDown,))


@duebox.on("order.placed", atomic=False, retry=RETRY)
def charge_card(event: duebox.Fact) -> None:
    said = charge(event.data["number"], attempt=event.attempt)
    Result.objects.create(what="charge", text=said)


@duebox.on("order.deadline_passed")
def close_order(event: duebox.Fact) -> None:
    Result.objects.create(what="closed", text=event.data["number"])


@duebox.on("order.review_due")
def ask_for_review(event: duebox.Fact) -> None:
    Result.objects.create(what="review", text=event.data["number"])


@duebox.periodic(cron(settings.REPORT_CRON), zone=settings.REPORT_ZONE)
def morning_report() -> None:
    Result.objects.create(what="report", text=f"orders so far: {Order.objects.count()}")


@duebox.periodic(every(seconds=settings.STOCK_SECONDS))
def check_stock() -> None:
    Result.objects.create(what="stock", text="checked")


@duebox.on("sale.started")
def start_sale(event: duebox.Fact) -> None:
    Result.objects.create(what="sale", text=event.data["name"])
