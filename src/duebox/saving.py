"""What is written because a row is saved commits with that row, or not at all."""

from __future__ import annotations

from functools import wraps
from typing import Any

from django.db import connections, models, router, transaction


def in_one_transaction(model: type[models.Model]) -> None:
    """Django announces a save after its transaction, if nobody opened another around it. From now on one is open until
    everybody has heard of it: an error, or the end of the process, never parts the row from what follows from it."""
    save_base = model.save_base
    if getattr(save_base, "in_one_transaction", False):
        return

    @wraps(save_base)
    def save(self: models.Model, *args: Any, **options: Any) -> None:
        using = options.get("using") or router.db_for_write(type(self), instance=self)
        if connections[using].in_atomic_block:
            return save_base(self, *args, **options)
        with transaction.atomic(using=using):
            return save_base(self, *args, **options)

    save.in_one_transaction = True  # type: ignore[attr-defined]
    model.save_base = save  # type: ignore[method-assign]
