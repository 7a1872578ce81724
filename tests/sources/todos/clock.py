"""A program with APScheduler: the sweep every second instead of every hour, and deliveries beside it."""

from __future__ import annotations

import signal
import threading

import django

django.setup()

from apscheduler.schedulers.background import BackgroundScheduler
from todos.sweeps import DueTasks

from duebox.integrations.apscheduler import Rounds

stopping = threading.Event()
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: stopping.set())

deliver = Rounds(threads=1)
scheduler = BackgroundScheduler(timezone="UTC")
scheduler.add_job(DueTasks.run, "interval", seconds=1, max_instances=1, coalesce=True)
scheduler.add_job(deliver, "interval", seconds=1, max_instances=1, coalesce=True)
scheduler.start()
print("the clock runs", flush=True)
stopping.wait()
deliver.stop()
scheduler.shutdown()
