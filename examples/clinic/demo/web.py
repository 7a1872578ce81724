"""The clinic as a web page, until Ctrl-C."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from importlib.util import find_spec

from django.db import connection

from examples.clinic.demo.client import Client
from examples.clinic.demo.curtain import Curtain
from examples.clinic.demo.process import Trouble
from examples.clinic.demo.screen import Screen
from examples.clinic.demo.stage import Stage, free_port
from examples.clinic.timelapse import VARIABLE, set_clock

# Two days before clocks change in Europe.
FIRST_MOMENT = datetime(2027, 3, 26, 15, tzinfo=UTC)
LOOK_SECONDS = 0.1
BILLING_NEEDS = ("fastapi", "uvicorn", "sqlalchemy")


def serve(stage: Stage, screen: Screen, curtain: Curtain, began: float) -> None:
    clock = stage.folder / "clock.json"
    set_clock(clock, FIRST_MOMENT)
    billing = free_port() if all(find_spec(each) for each in BILLING_NEEDS) else 0
    environment = {VARIABLE: str(clock), "CLINIC_BILLING": f"http://127.0.0.1:{billing}" if billing else ""}
    stage.open(**environment)
    if not Client(stage.port).post("/controls/example-data/").accepted:
        raise Trouble("The clinic refused its example data; see web.log.")
    connection.close()
    _show_address(stage, screen, time.monotonic() - began)
    curtain.rise()
    if billing:
        stage.open_billing(billing, **environment)
    else:
        needed = " ".join(BILLING_NEEDS)
        screen.say(f"  With a second service in FastAPI: .venv/bin/uv pip install -p .venv {needed}")
    while not curtain.fallen.wait(LOOK_SECONDS):
        stage.must_be_alive()
    screen.say("\nstopping the worker, the web server and PostgreSQL")


def _show_address(stage: Stage, screen: Screen, seconds: float) -> None:
    address = f"http://127.0.0.1:{stage.port}"
    screen.say(f"\n  The clinic is open after {seconds:.1f} s.\n", "bold")
    for name, url in (("Open this page", f"{address}/"), ("The dashboard", f"{address}/admin/duebox/")):
        screen.say(f"  {name:<16}  {url}")
    screen.say(
        f"\n  Its clock starts at {FIRST_MOMENT:%a %d %b %Y %H:%M} UTC, two days before clocks change in Europe.\n"
        "  Book, move and cancel appointments, change rows with SQL, break a handler, and fast-forward.\n"
        f"  Logs and messages: {stage.folder}\n\n"
        "  Ctrl-C stops everything. `make demo TERMINAL=1` shows a time lapse in the terminal instead."
    )
