"""A process that commits events and schedules reminders until it is killed; prints what became of each."""

from __future__ import annotations

import os
import random
import sys
import time
from datetime import UTC, datetime, timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
PAUSE = 0.02


def main(seed: int) -> None:
    django.setup()
    from django.db import Error, connection

    luck = random.Random(seed)
    while True:
        try:
            for fate, name in emit_one(luck):
                print(fate, name, flush=True)
        except Error:
            # It is not known whether that transaction was committed, so it is not judged.
            connection.close()
            time.sleep(0.2)
        time.sleep(PAUSE)


def emit_one(luck: random.Random) -> list[tuple[str, str]]:
    from django.db import transaction

    import duebox
    from tests.app.handlers import lock_and_count

    account = luck.randint(1, 40)
    soon = datetime.now(UTC) + timedelta(seconds=luck.uniform(0, 5))
    reminder = rolled_back = False
    with transaction.atomic():
        sequence = lock_and_count(account)
        fact = duebox.emit("ledger.posted", {"account": account, "sequence": sequence}, about=("account", account))
        if reminder := luck.random() < 0.4:
            duebox.schedule("chaos.reminder_due", {"reminder": str(fact.id)}, at=soon, key=f"chaos:{fact.id}")
        if rolled_back := luck.random() < 0.1:
            transaction.set_rollback(True)
    if rolled_back:
        return [("rolled_back", str(fact.id))]
    return [("committed", str(fact.id)), *([("reminder", str(fact.id))] if reminder else [])]


if __name__ == "__main__":
    main(int(sys.argv[1]))
