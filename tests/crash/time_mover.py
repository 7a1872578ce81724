"""A process that changes its mind about schedules at given moments, and tells what its own transactions saw.

It reads one line with a list of orders. Each order says what to do, to which keys, and at which second of real time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import django
from django.db import transaction

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

Order = dict[str, Any]


def main() -> None:
    django.setup()
    from tests.crash.time_app import declare

    declare()
    actions = {each.__name__: each for each in (reschedule, schedule_again, cancel, cancel_about, move, move_together)}
    print("ready", flush=True)
    found = []
    for order in json.loads(sys.stdin.readline()):
        time.sleep(max(0.0, order["at"] - time.time()))
        found.append({**order, "saw": actions[order["do"]](order)})
    print(json.dumps(found), flush=True)


@contextmanager
def transaction_of(order: Order) -> Iterator[None]:
    """Committed, or held for a moment and undone."""
    with transaction.atomic():
        yield
        if order["undo"]:
            time.sleep(0.03)
            transaction.set_rollback(True)


def reschedule(order: Order) -> str:
    """Moves what has not fired yet; what has fired is planned anew."""
    import duebox
    from duebox.exceptions import InvalidSchedule

    try:
        with transaction_of(order):
            duebox.reschedule(order["key"], at=datetime.fromisoformat(order["to"]))
    except InvalidSchedule as error:
        if "No live schedule" in str(error):
            return "fired" if order["undo"] else schedule_again(order)
        return "too late"
    return "moved"


def schedule_again(order: Order) -> str:
    """Under the same key, whether it has fired or not."""
    import duebox
    from duebox.exceptions import InvalidSchedule

    about, to = ("account", order["key"]), datetime.fromisoformat(order["to"])
    try:
        with transaction_of(order):
            data = {"account": 1, "sequence": 0}
            found = duebox.schedule("ledger.posted", data, at=to, key=order["key"], about=about)
    except InvalidSchedule:
        return "too late"
    return "fired" if found.fired else "moved"


def cancel(order: Order) -> int:
    import duebox

    with transaction_of(order):
        return duebox.cancel(order["key"])


def cancel_about(order: Order) -> int:
    import duebox

    with transaction_of(order):
        return duebox.cancel(about=("account", order["account"]))


def move(order: Order) -> list[str]:
    """By saving the model; gives the year greeted last as this transaction sees it."""
    from tests.app.guests import Guest

    with transaction_of(order):
        guest = Guest.objects.get(pk=order["guests"][0])
        guest.zone = order["zone"]
        guest.save()
        return greeted_years(order["guests"])


def move_together(order: Order) -> list[str]:
    """Past the model's signals, many at once."""
    from duebox.schedules.plans import plans
    from tests.app.guests import Guest

    [birthdays] = [type(plan) for plan in plans() if plan.name == "guests.birthdays"]
    with transaction_of(order):
        guests = Guest.objects.filter(pk__in=order["guests"])
        guests.update(zone=order["zone"])
        birthdays.sync(guests)
        return greeted_years(order["guests"])


def greeted_years(guests: list[int]) -> list[str]:
    from duebox.models import Schedule

    keys = [f"guests.birthdays:{guest}" for guest in guests]
    fired = dict(Schedule.objects.filter(key__in=keys).values_list("key", "fired"))
    return [fired[key] for key in keys]


if __name__ == "__main__":
    main()
