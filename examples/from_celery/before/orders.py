from __future__ import annotations

from django.conf import settings
from django.db import transaction

from examples.from_celery.before.tasks import ask_for_review, charge_card, close_order, send_receipt
from examples.from_celery.shop.models import Order


def place(number: str) -> Order:
    with transaction.atomic():
        order = Order.objects.create(number=number)
        transaction.on_commit(lambda: send_receipt.delay(order.pk))
        transaction.on_commit(lambda: charge_card.delay(order.pk))
        transaction.on_commit(lambda: close_order.apply_async([order.pk], eta=order.deadline))
        transaction.on_commit(lambda: ask_for_review.apply_async([order.pk], countdown=settings.REVIEW_SECONDS))
    return order
