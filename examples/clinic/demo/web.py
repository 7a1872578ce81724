"""The clinic as a web page, until Ctrl-C."""

from __future__ import annotations

import os
import shutil
import socket
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec

from django.core.management import call_command
from django.db import connection

from examples.clinic import aws
from examples.clinic.demo.client import Client
from examples.clinic.demo.curtain import Curtain
from examples.clinic.demo.process import Trouble
from examples.clinic.demo.screen import Screen
from examples.clinic.demo.stage import Stage, free_port
from examples.clinic.events import CLINIC
from examples.clinic.receiver import Received
from examples.clinic.timelapse import VARIABLE, set_clock

# Two days before clocks change in Europe.
FIRST_MOMENT = datetime(2027, 3, 26, 15, tzinfo=UTC)
LOOK_SECONDS = 0.1
ON_AWS = ("bus", "queue")


def _port_if(*packages: str) -> int:
    """A free port, or 0 where one of the packages is missing."""
    return free_port() if all(find_spec(each) for each in packages) else 0


@dataclass(frozen=True)
class Others:
    """The programs beside the clinic, by their ports; 0 where what they need is not installed."""

    receiver: int = field(default_factory=lambda: _port_if("cryptography", "urllib3"))
    billing: int = field(default_factory=lambda: _port_if("fastapi", "uvicorn", "sqlalchemy"))
    aws: int = field(default_factory=lambda: _port_if("boto3", "moto", "flask", "flask_cors"))

    @property
    def environment(self) -> dict[str, str]:
        return {
            "CLINIC_RECEIVER": str(self.receiver),
            "CLINIC_BILLING": f"http://127.0.0.1:{self.billing}" if self.billing else "",
            "CLINIC_AWS": self.aws_address if self.aws else "",
            **aws.CREDENTIALS,
        }

    @property
    def aws_address(self) -> str:
        return f"http://127.0.0.1:{self.aws}"


def serve(stage: Stage, screen: Screen, curtain: Curtain, began: float) -> None:
    clock = stage.folder / "clock.json"
    set_clock(clock, FIRST_MOMENT)
    others = Others()
    # This process, too, is the clinic: by the same settings and the same clock.
    os.environ.update({VARIABLE: str(clock), **others.environment})
    received = stage.folder / "received"
    shutil.rmtree(received, ignore_errors=True)
    if others.receiver:
        stage.start_receiver(others.receiver, received)
    stage.open()
    if others.receiver:
        _register_receiver(others.receiver, Received(received))
    if others.aws:
        _pause_aws()
    if not Client(stage.port).post("/controls/example-data/").accepted:
        raise Trouble("The clinic refused its example data; see web.log.")
    connection.close()
    _show_address(stage, screen, others, time.monotonic() - began)
    curtain.rise()
    # What takes seconds to start, and is not needed for the first look.
    if others.billing:
        stage.start_billing(others.billing)
    is_waiting = bool(others.aws)
    if is_waiting:
        stage.start_aws(others.aws)
    while not curtain.fallen.wait(LOOK_SECONDS):
        stage.must_be_alive()
        if is_waiting and _answers(others.aws):
            is_waiting = False
            _resume_aws(others.aws_address)
    screen.say("\nstopping the worker, the web server and PostgreSQL")


def _register_receiver(port: int, received: Received) -> None:
    """As a partner does: it names its URL and the types it wants, and gets a secret."""
    from duebox.destinations.webhooks import endpoints

    url = f"http://127.0.0.1:{port}/hook"
    received.keep_secret(endpoints.create(CLINIC, url, ["appointment.*"], description="receiver.py").secret)


def _pause_aws() -> None:
    """Until the local AWS server is there, events wait for it and nothing fails."""
    for name in ON_AWS:
        _destinations("pause", name, "--note", "the local AWS server is starting")


def _resume_aws(address: str) -> None:
    aws.create(address)
    for name in ON_AWS:
        _destinations("resume", name)
    connection.close()


def _destinations(*arguments: str) -> None:
    with open(os.devnull, "w") as nowhere:
        call_command("duebox", "destinations", *arguments, stdout=nowhere)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _show_address(stage: Stage, screen: Screen, others: Others, seconds: float) -> None:
    address = f"http://127.0.0.1:{stage.port}"
    screen.say(f"\n  The clinic is open after {seconds:.1f} s.\n", "bold")
    pages = {"Open this page": "/", "What leaves": "/outgoing/", "The dashboard": "/admin/duebox/"}
    for name, path in pages.items():
        screen.say(f"  {name:<16}  {address}{path}")
    screen.say(
        f"\n  Its clock starts at {FIRST_MOMENT:%a %d %b %Y %H:%M} UTC, two days before clocks change in Europe.\n"
        "  Book, move and cancel appointments, change rows with SQL, break a handler, and fast-forward.\n"
        f"  Logs and messages: {stage.folder}\n"
    )
    if not others.aws:
        screen.say("  With EventBridge and SQS on a local AWS server (60 MB more to install): make demo AWS=1")
    screen.say("  Ctrl-C stops everything. `make demo TERMINAL=1` shows a time lapse in the terminal instead.")
