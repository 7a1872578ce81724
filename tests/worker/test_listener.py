from __future__ import annotations

import logging
import threading
import time

import pytest
from django.db import connections
from django.utils import timezone

import duebox
from duebox import deliveries
from duebox.models import Delivery, Worker
from tests.support import eventually, terminate_others
from tests.worker.proxy import DeafProxy

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def heard(on):
    """When the handler was called."""
    moments = []
    on("a.b", name="it", atomic=False)(lambda event: moments.append(time.monotonic()))
    return moments


@pytest.fixture
def deaf(transactional_db, monkeypatch):
    """From now on connections go through a proxy; the test's own is open already and goes past it."""
    connections["default"].ensure_connection()
    entry = connections["default"].settings_dict
    proxy = DeafProxy(entry)
    monkeypatch.setitem(entry, "HOST", "127.0.0.1")
    monkeypatch.setitem(entry, "PORT", str(proxy.port))
    monkeypatch.setitem(entry, "OPTIONS", {"sslmode": "disable", "gssencmode": "disable"})
    yield proxy
    proxy.close()


def emit():
    emitted_at = time.monotonic()
    duebox.emit("a.b")
    return emitted_at


def test_an_idle_worker_hears_of_an_event_at_once(hire, configure, heard, caplog):
    caplog.set_level(logging.INFO, logger="duebox.worker")
    configure(LISTEN=True, POLL_SECONDS=60)
    worker = hire()
    eventually(lambda: Worker.objects.get().listening)
    assert (worker.listener.mode, Worker.objects.get().mode) == ("listen", "listen")
    eventually(lambda: "wake-up mode is now listen" in caplog.text)
    for number in range(3):
        emitted_at = emit()
        eventually(lambda number=number: len(heard) > number)
        assert heard[-1] - emitted_at < 5


def test_without_listening_a_worker_looks_at_every_poll(hire, configure, heard):
    configure(LISTEN=False, POLL_SECONDS=0.2)
    worker = hire()
    emitted_at = emit()
    eventually(lambda: heard)
    assert heard[0] - emitted_at < 5
    assert worker.listener is None
    row = Worker.objects.get()
    assert (row.mode, row.listening) == ("poll", False)


def test_behind_a_pooler_that_passes_no_notifications_a_worker_says_so_and_polls(
    deaf, hire, configure, heard, caplog, tune
):
    # Heartbeats four times a second, as with a lease of a second, which a slow machine would lose again and again.
    tune(beats_per_lease=80)
    configure(LISTEN=True, LEASE_SECONDS=20, POLL_SECONDS=0.3)
    worker = hire()
    eventually(lambda: "wake-up mode is now poll: no notification arrives here; is there a pooler" in caplog.text)
    assert deaf.dropped > 0
    assert worker.listener.mode == "poll"
    assert not Worker.objects.filter(listening=True).exists()
    emit()
    eventually(lambda: heard)


def test_a_listener_whose_connection_breaks_says_so_and_comes_back(hire, configure, heard, elsewhere, caplog):
    configure(LISTEN=True, LEASE_SECONDS=2, POLL_SECONDS=60)
    worker = hire()
    eventually(lambda: Worker.objects.get().listening)
    assert terminate_others(elsewhere, "LISTEN duebox%") == 1
    eventually(lambda: "wake-up mode is now poll" in caplog.text)
    eventually(lambda: worker.listener.mode == "listen")
    eventually(lambda: Worker.objects.get().listening)
    emit()
    eventually(lambda: heard)


def test_a_worker_that_has_a_new_lease_hears_of_events_as_before(hire, configure, heard):
    configure(LISTEN=True, LEASE_SECONDS=2, POLL_SECONDS=60)
    worker = hire()
    eventually(lambda: Worker.objects.get().listening)
    time.sleep(1.5)
    old = worker.lease.id
    worker.lease.abandon("for the test")
    eventually(lambda: worker.lease.id not in (0, old))
    eventually(lambda: Worker.objects.filter(id=worker.lease.id, listening=True).exists(), 10)
    emit()
    eventually(lambda: heard, 10)


def test_an_event_that_comes_while_there_is_no_lease_is_run_when_there_is_one_again(
    hire, configure, heard, monkeypatch
):
    configure(LISTEN=True, LEASE_SECONDS=20, POLL_SECONDS=60)
    worker = hire()
    eventually(lambda: Worker.objects.get().listening)
    time.sleep(1.5)
    take, may_take = worker.lease.take, threading.Event()
    monkeypatch.setattr(worker.lease, "take", lambda: may_take.wait(20) and take())
    worker.lease.abandon("for the test")
    emit()
    time.sleep(0.5)
    may_take.set()
    eventually(lambda: heard, 10)


def test_dead_letters_that_come_back_one_after_the_other_do_not_wait_for_the_poll(hire, configure, heard):
    configure(LISTEN=True, POLL_SECONDS=60)
    duebox.emit_many(duebox.NewEvent(type="a.b") for _ in range(3))
    Delivery.objects.update(status="dead", died_at=timezone.now(), fingerprint="0")
    hire()
    eventually(lambda: Worker.objects.get().listening)
    time.sleep(1.5)
    assert len(deliveries.retry(list(Delivery.objects.values_list("id", flat=True)), rate=4).ids) == 3
    eventually(lambda: len(heard) == 3, 10)
