from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import transaction

import duebox
from examples.from_celery.after.events import OrderDeadlinePassed, OrderPlaced, OrderReviewDue
from examples.from_celery.shop.models import Order


def place(number: str) -> Order:
    with transaction.atomic():
        order = Order.objects.create(number=number)
        duebox.emit(OrderPlaced(number=number), about=order)
        duebox.schedule(OrderDeadlinePassed(number=number), about=order, at=order.deadline)
        duebox.schedule(OrderReviewDue(number=number), about=order, after=timedelta(seconds=settings.REVIEW_SECONDS))
    return order
