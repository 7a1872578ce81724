"""Contracts: what holding an emission to its schema costs, beside the same payload under a type nobody declared."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Literal

from django.db import transaction

import duebox
from bench import stage
from duebox.conf import conf
from duebox.events.emit import NewEvent, fact_row

WARM = 20


@dataclass(frozen=True, kw_only=True)
class Line:
    sku: str
    quantity: int
    price: Decimal


@duebox.event("bench.order_placed", aggregate="account")
class OrderPlaced:
    """An ordinary event: texts, numbers, a choice, and a list of objects."""

    order: str
    customer: str
    lines: list[Line]
    total: Decimal
    currency: Literal["EUR", "CHF", "USD"]
    express: bool = False
    note: str = ""


LINES = [
    {"sku": "KB-2041-DE", "quantity": 1, "price": "89.90"},
    {"sku": "MS-1007", "quantity": 2, "price": "24.50"},
    {"sku": "CB-0003-2M", "quantity": 3, "price": "7.90"},
]
PAYLOAD: dict[str, Any] = {
    "order": "A-10482", "customer": "0198d3a2-6f1e-7c44-9b52-3f7f2f0c1d11", "lines": LINES, "total": "162.60",
    "currency": "EUR", "express": True, "note": "leave it at the door, please",
}  # fmt: skip
INSTANCE = OrderPlaced(
    **{
        **PAYLOAD,
        "lines": [Line(**{**line, "price": Decimal(line["price"])}) for line in LINES],
        "total": Decimal("162.60"),
    }
)
FORMS = {
    "unchecked": NewEvent(type="bench.order_noted", data=PAYLOAD, about=("account", 1)),
    "checked": NewEvent(type="bench.order_placed", data=PAYLOAD, about=("account", 1)),
    "instance": NewEvent(type=INSTANCE, about=("account", 1)),
}


def cost() -> dict[str, Any]:
    """Microseconds for each form, the row alone and the whole emission."""
    assert 280 <= len(json.dumps(PAYLOAD, separators=(",", ":"))) <= 320
    stage.empty()
    settings = conf()
    rows = {name: partial(fact_row, new, settings) for name, new in FORMS.items()}
    emissions = {name: partial(duebox.emit_many, [new]) for name, new in FORMS.items()}
    found = {"contract_row_us": _in_turns(rows, batches=1_000, size=20)}
    with transaction.atomic():  # a commit waits for the disk, a hundred times as long as what is looked for
        found["contract_emit_us"] = _in_turns(emissions, batches=1_500, size=2)
        transaction.set_rollback(True)
    return found


def _in_turns(actions: dict[str, Callable[[], Any]], *, batches: int, size: int) -> dict[str, float]:
    """The median of each, and of what it takes more than the first: small batches in turns, each first now and then,
    so that a slow moment of the machine hits all of them."""
    names = list(actions)
    took: dict[str, list[float]] = {name: [] for name in names}
    for number in range(batches + WARM):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            seconds = _timed(actions[name], size)
            if number >= WARM:
                took[name].append(seconds / size * 1e6)
    found = {name: statistics.median(each) for name, each in took.items()}
    for name in names[1:]:
        pairs = zip(took[name], took[names[0]], strict=True)
        found[f"{name}_adds"] = statistics.median(mine - bare for mine, bare in pairs)
    return {name: round(each, 2) for name, each in found.items()}


def _timed(action: Callable[[], Any], size: int) -> float:
    begun = time.perf_counter()
    for _ in range(size):
        action()
    return time.perf_counter() - begun
