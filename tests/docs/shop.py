"""The shop that the examples talk about. They import it as `shop.models`."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    number = models.TextField(default="A-1")
    total = models.DecimalField(max_digits=10, decimal_places=2, default="99.50")
    status = models.TextField(default="open")
    open_parts = models.IntegerField(default=0)

    class Meta:
        app_label = "shop"

    def __str__(self) -> str:
        return f"order {self.number}"


class Receipt(models.Model):
    order_id = models.IntegerField()
    event_id = models.UUIDField()

    class Meta:
        app_label = "shop"

    def __str__(self) -> str:
        return f"receipt for order {self.order_id}"
