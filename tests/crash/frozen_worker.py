"""`manage.py duebox worker` that stops itself (SIGSTOP) in the middle of a transaction of its own, while it holds a
lock on the row of its lease: when it has claimed `frozen.asked` for a handler with a limit, before the commit.

The first argument says after how many seconds the server ends such a transaction.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import django
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")


def main(idle_seconds: float) -> None:
    django.setup()
    import duebox
    from duebox.store.deliveries import Claimed, claim
    from duebox.worker import limited_handlers
    from duebox.worker.tunables import TUNABLES

    def claim_and_freeze(*arguments: Any, **options: Any) -> Claimed:
        claimed = claim(*arguments, **options)
        if claimed.claims:
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(1)  # the signal may come to another thread first
        return claimed

    object.__setattr__(TUNABLES, "idle_in_transaction_seconds", idle_seconds)
    limited_handlers.claim = claim_and_freeze
    duebox.on("frozen.asked", name="frozen", limit=duebox.Limit(concurrency=1))(lambda event: None)
    call_command("duebox", "worker")


if __name__ == "__main__":
    main(float(sys.argv[1]))
