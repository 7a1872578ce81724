from __future__ import annotations

from typing import Any

from celery import shared_task

from examples.from_celery.shop.gateway import GatewayDown, charge
from examples.from_celery.shop.models import Order, Result


@shared_task
def send_receipt(order_id: int) -> None:
    order = Order.objects.get(pk=order_id)
    Result.objects.create(what="receipt", text=order.number)


@shared_task(
    bind=True, autoretry_for=(GatewayDown,), max_retries=5, retry_backoff=1, retry_backoff_max=600, retry_jitter=False
)
def charge_card(self: Any, order_id: int) -> None:
    order = Order.objects.get(pk=order_id)
    said = charge(order.number, attempt=self.request.retries + 1)
    Result.objects.create(what="charge", text=said)


@shared_task
def close_order(order_id: int) -> None:
    order = Order.objects.get(pk=order_id)
    Result.objects.create(what="closed", text=order.number)


@shared_task
def ask_for_review(order_id: int) -> None:
    order = Order.objects.get(pk=order_id)
    Result.objects.create(what="review", text=order.number)


@shared_task
def morning_report() -> None:
    Result.objects.create(what="report", text=f"orders so far: {Order.objects.count()}")


@shared_task
def check_stock() -> None:
    Result.objects.create(what="stock", text="checked")


@shared_task
def start_sale(name: str) -> None:
    Result.objects.create(what="sale", text=name)
