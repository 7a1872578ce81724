from __future__ import annotations

import json
import signal

import pytest
from django.core.management.base import CommandError

import duebox
from duebox.models import Delivery, Worker
from tests.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def test_once_delivers_what_is_due_and_exits(manage, on):
    on("a.b", name="it")(lambda event: None)
    duebox.emit_many([duebox.NewEvent(type="a.b")] * 5)
    assert manage("publish_events", "--once", "--batch-size", "2") == "delivered 5\n"
    assert manage("publish_events", "--once") == "nothing to do\n"


def test_with_a_poll_interval_it_keeps_running(start):
    environment = {"DUEBOX_TEST_SETTINGS": json.dumps({"LISTEN": False, "POLL_SECONDS": 60})}
    publisher = start("publish_events", "--poll-interval", "0.1", **environment)
    eventually(Worker.objects.exists, 20)
    for sequence in range(2):
        duebox.emit("ledger.posted", {"account": 1, "sequence": sequence}, about=("account", 1))
        eventually(lambda: not Delivery.objects.exists())
    publisher.send_signal(signal.SIGTERM)
    publisher.communicate(timeout=120)
    assert publisher.returncode == 0


def test_it_must_be_said_how_to_run(manage):
    with pytest.raises(CommandError, match="one of the arguments --once --poll-interval is required"):
        manage("publish_events")
    with pytest.raises(CommandError, match="not allowed with argument --once"):
        manage("publish_events", "--once", "--poll-interval", "1")


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "soon"])
def test_an_interval_that_makes_no_sense_is_refused(manage, seconds):
    with pytest.raises(CommandError, match="--poll-interval"):
        manage("publish_events", f"--poll-interval={seconds}")
