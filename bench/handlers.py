"""The handlers under measurement; each event type has one."""

from __future__ import annotations

import os
import time

from django.db import connection

import duebox


@duebox.on("bench.plain", name="plain", atomic=False)
def plain(event: duebox.Fact) -> None:
    """A no-op: what remains is Duebox."""


@duebox.on("bench.ordered", name="ordered", atomic=False, ordered=True)
def ordered(event: duebox.Fact) -> None:
    """The same, one after the other for each aggregate."""


@duebox.on("bench.atomic", name="atomic")
def atomic(event: duebox.Fact) -> None:
    # Not through the ORM, whose own time would be a large part of what is measured.
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO bench_effect (event_id) VALUES (%s)", [event.id])


@duebox.on("bench.latency", name="latency", atomic=False)
def latency(event: duebox.Fact) -> None:
    os.write(1, f"{event.data['number']} {time.time()}\n".encode())
