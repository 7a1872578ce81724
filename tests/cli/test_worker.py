from __future__ import annotations

import json
import signal

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

import duebox
from duebox.models import Delivery, Worker
from tests.app.models import Effect
from tests.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)
SETTINGS = {"DUEBOX_TEST_SETTINGS": json.dumps({"POLL_SECONDS": 0.2, "LEASE_SECONDS": 3})}


def post(count=3):
    """Events that tests.app.handlers react to, in whatever process."""
    return [
        duebox.emit("ledger.posted", {"account": 1, "sequence": number}, about=("account", 1))
        for number in range(count)
    ]


def test_once_delivers_what_is_due_and_says_how_much(manage):
    post()
    assert manage("duebox", "once") == "delivered 9\n"
    assert not Delivery.objects.exists()
    assert not Worker.objects.exists()


def test_once_with_nothing_due_says_so(manage):
    assert manage("duebox", "once") == "nothing to do\n"


def test_once_gives_its_counts_as_json(manage):
    post(1)
    assert json.loads(manage("duebox", "once", "--json")) == {
        "delivered": 3, "discarded": 0, "expired": 0, "snoozed": 0, "retried": 0, "dead": 0, "lost": 0,
    }  # fmt: skip


@pytest.mark.usefixtures("manage")
def test_with_json_nothing_but_the_counts_is_on_stdout(settings, capsys, on):
    settings.DUEBOX = {**settings.DUEBOX, "METRICS": ["emf"]}
    on("order.paid", name="it")(lambda event: print("paid"))
    duebox.emit("order.paid")
    call_command("duebox", "once", "--json")
    out, err = capsys.readouterr()
    assert json.loads(out)["delivered"] == 1
    assert "paid" in err
    assert "CloudWatchMetrics" in err


def test_once_serves_only_whom_it_is_told_to(manage):
    post(1)
    manage("duebox", "once", "--only", "ledger.a*", "--only", "ledger.outside", "--threads", "1", "--batch-size", "2")
    assert [row.subscriber for row in Delivery.objects.all()] == ["ledger.ordered"]


@pytest.mark.parametrize("verb", ["worker", "once"])
def test_a_pattern_that_matches_nobody_is_refused_with_those_there_are(manage, verb):
    with pytest.raises(SystemExit, match=r"--only mial.\* matches no subscriber; there are: .*ledger.atomic"):
        manage("duebox", verb, "--only", "mial.*")


@pytest.mark.parametrize(
    "words",
    [
        ("once", "--threads", "0"),
        ("once", "--batch-size", "-5"),
        ("worker", "--processes", "none"),
        ("deliveries", "list", "--limit", "-1"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(manage, words):
    with pytest.raises(CommandError, match=r"is not a whole number above 0"):
        manage("duebox", *words)


@pytest.mark.parametrize("words", [["once"], ["deliveries", "list"], ["status"]])
def test_a_database_that_is_not_configured_is_refused_with_those_that_are(manage, words):
    with pytest.raises(CommandError, match=r"'nope'.*default, other"):
        manage("duebox", *words, "--database", "nope")


@pytest.mark.parametrize("words", [["once"], ["deliveries", "list"], ["status"]])
def test_missing_tables_are_answered_with_the_migrate_command(manage, words):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE duebox_worker RENAME TO hidden_worker")
        cursor.execute("ALTER TABLE duebox_delivery RENAME TO hidden_delivery")
    try:
        with pytest.raises(CommandError, match=r"manage\.py migrate duebox"):
            manage("duebox", *words)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE hidden_worker RENAME TO duebox_worker")
            cursor.execute("ALTER TABLE hidden_delivery RENAME TO duebox_delivery")


def test_a_worker_delivers_until_it_is_told_to_stop(start):
    worker = start("duebox", "worker", **SETTINGS)
    facts = post()
    eventually(lambda: not Delivery.objects.exists(), 20)
    worker.send_signal(signal.SIGTERM)
    out, err = worker.communicate(timeout=120)
    assert worker.returncode == 0, err
    assert out.startswith("Duebox worker on database 'default': ")
    assert out.endswith("4 threads. Stop it with Ctrl-C.\n")
    assert "stopping: signal=SIGTERM" in err
    assert "stopped: delivered 9" in err
    assert "Traceback" not in err
    assert set(Effect.objects.values_list("event_id", flat=True)) == {fact.id for fact in facts}
    assert not Worker.objects.exists()


def test_several_processes_work_side_by_side_and_stop_together(start):
    supervisor = start("duebox", "worker", "--processes", "2", "--threads", "1", **SETTINGS)
    eventually(lambda: Worker.objects.count() == 2, 25)
    post()
    eventually(lambda: not Delivery.objects.exists(), 20)
    supervisor.send_signal(signal.SIGINT)
    _, err = supervisor.communicate(timeout=120)
    assert supervisor.returncode == 0, err
    assert not Worker.objects.exists()


def test_a_signal_that_comes_twice_at_once_is_one(start):
    """A service manager that signals the whole group, and the supervisor who passes it on."""
    worker = start("duebox", "worker", **SETTINGS)
    eventually(lambda: Worker.objects.exists(), 25)
    worker.send_signal(signal.SIGTERM)
    eventually(lambda: "stopping" in worker.stderr.readline(), 10)
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=120)
    assert worker.returncode == 0, err
    assert not Worker.objects.exists()


def test_a_worker_without_its_database_waits_for_it_and_can_be_stopped(start, nowhere):
    worker = start("duebox", "worker", **nowhere)
    lines = [worker.stderr.readline()]
    while "database error, next try in 1 s" not in lines[-1]:
        assert lines[-1], lines
        lines.append(worker.stderr.readline())
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=120)
    assert worker.returncode == 0, err
    assert "Traceback" not in "".join(lines) + err


def test_a_command_without_its_database_says_so_without_a_traceback(start, nowhere):
    done = start("duebox", "deliveries", "list", **nowhere)
    out, err = done.communicate(timeout=120)
    assert (done.returncode, out) == (1, "")
    assert "CommandError: The database cannot be reached (" in err
    assert "check DATABASES and that it runs" in err
    assert "Traceback" not in err


UNCONFIGURED = {"DUEBOX_TEST_LOGGING": "none"}


def run_until(start, *words, done):
    worker = start("duebox", "worker", *words, **SETTINGS, **UNCONFIGURED)
    eventually(done, 30)
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=120)
    assert worker.returncode == 0, err
    return err


def test_the_terminal_of_a_worker_shows_what_it_does_where_the_project_has_no_logging(start):
    post(1)
    fact = duebox.emit("mortal.born", {"number": 7})
    err = run_until(start, done=lambda: Delivery.objects.filter(status="dead").count() == Delivery.objects.count() == 1)
    assert "INFO started: mode=worker" in err
    assert len([line for line in err.splitlines() if "INFO delivered: subscriber=ledger." in line]) == 3
    assert f"ERROR dead letter: subscriber=mortal.dies type=mortal.born event_id={fact.id}" in err
    assert "Traceback" in err
    assert "INFO stopped: delivered 3, dead 1" in err


def test_with_verbosity_0_only_warnings_are_shown(start):
    post(1)
    err = run_until(start, "-v", "0", done=lambda: not Delivery.objects.exists())
    assert err == ""


def test_once_shows_failures_and_is_otherwise_quiet_where_the_project_has_no_logging(start):
    post(1)
    duebox.emit("mortal.born", {"number": 7})
    out, err = start("duebox", "once", **UNCONFIGURED).communicate(timeout=120)
    assert out == "delivered 3, dead 1\n"
    assert "ERROR dead letter: subscriber=mortal.dies" in err
    assert "Traceback" in err
    assert "INFO" not in err
