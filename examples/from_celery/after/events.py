from __future__ import annotations

import duebox


@duebox.event("order.placed")
class OrderPlaced:
    number: str


@duebox.event("order.deadline_passed")
class OrderDeadlinePassed:
    number: str


@duebox.event("order.review_due")
class OrderReviewDue:
    number: str


@duebox.event("sale.started")
class SaleStarted:
    name: str
