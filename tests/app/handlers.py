"""Handlers whose effects the crash tests count."""

from __future__ import annotations

import os
import threading
import time

from django.db import connection

import duebox
from tests.app.models import Account, Effect


@duebox.on("ledger.posted", name="ledger.atomic")
def write_once(event: duebox.Fact) -> None:
    Effect.objects.create(event_id=event.id, subscriber="ledger.atomic")


@duebox.on("ledger.posted", name="ledger.outside", atomic=False)
def tell_outside(event: duebox.Fact) -> None:
    Effect.objects.create(event_id=event.id, subscriber="ledger.outside")


@duebox.on("ledger.posted", name="ledger.ordered", ordered=True)
def write_in_order(event: duebox.Fact) -> None:
    sequence = event.data["sequence"]
    Effect.objects.create(event_id=event.id, subscriber=f"ledger.ordered:{event.data['account']}", sequence=sequence)


@duebox.on("chaos.*", name="chaos.atomic")
def write_what_was_due(event: duebox.Fact) -> None:
    Effect.objects.create(event_id=event.id, subscriber="chaos.atomic")


@duebox.on("poison.taken", name="poison.kills_its_process", atomic=False)
def kill_the_process(event: duebox.Fact) -> None:
    os.kill(os.getpid(), 9)


@duebox.on("mortal.born", name="mortal.dies")
def die(event: duebox.Fact) -> None:
    raise duebox.Permanent(f"number {event.data['number']} was not meant to live")


@duebox.on("chore.due_soon", name="chore.reminds")
def remind(event: duebox.Fact) -> None:
    if event.data["title"] == "broken":
        raise duebox.Permanent("nobody can be reminded of this")
    Effect.objects.create(event_id=event.id, subscriber="chore.reminds", sequence=int(event.about[1]))


@duebox.on("nap.asked", name="nap.sleeps")
def sleep_for_a_while(event: duebox.Fact) -> None:
    Effect.objects.create(event_id=event.id, subscriber="nap.sleeps")
    time.sleep(event.data["seconds"])


@duebox.on("query.asked", name="query.takes_long")
def ask_for_a_while(event: duebox.Fact) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)", [event.data["seconds"]])


@duebox.on("thread.asked", name="thread.is_left", atomic=False)
def leave_a_thread(event: duebox.Fact) -> None:
    threading.Thread(target=time.sleep, args=[event.data["seconds"]], daemon=False).start()


def lock_and_count(account: int) -> int:
    """What a writer of an aggregate does: lock it, then emit; so the order of its events is the order of commits."""
    row = Account.objects.select_for_update().get(pk=account)
    row.counter += 1
    row.save(update_fields=["counter"])
    return row.counter
