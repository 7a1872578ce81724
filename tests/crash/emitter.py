"""A process that commits events about accounts and rolls a tenth of them back; prints the ids of both kinds."""

from __future__ import annotations

import os
import random
import sys
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")


def main(count: int, seed: int) -> None:
    django.setup()
    luck = random.Random(seed)
    for _ in range(count):
        print(*emit_patiently(luck), flush=True)


def emit_patiently(luck: random.Random) -> tuple[str, str]:
    from django.db import InterfaceError, OperationalError, connection

    while True:
        try:
            return emit_one(luck)
        except (OperationalError, InterfaceError):
            # Nobody can know whether that one was committed, so its ids are not judged.
            connection.close()
            time.sleep(0.2)


def emit_one(luck: random.Random) -> tuple[str, str]:
    from django.db import transaction

    import duebox
    from tests.app.handlers import lock_and_count

    account = luck.randint(1, 40)
    with transaction.atomic():
        sequence = lock_and_count(account)
        fact = duebox.emit("ledger.posted", {"account": account, "sequence": sequence}, about=("account", account))
        if fate := luck.random() < 0.1:
            transaction.set_rollback(True)
    return ("rolled_back" if fate else "committed"), str(fact.id)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
